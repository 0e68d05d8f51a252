package api

// Settings is what was set through the API and outlives the process.
type Settings struct {
	// Drains by the name of the path.
	Drains map[string]Drain `json:"drains"`
	// Policies in the order of names.
	Policies []Policy `json:"policies"`
}

// LoadSettings reads what [Settings.Save] wrote into dir; none where nothing was
// written.
func LoadSettings(dir string) (Settings, error) { panic("not yet") }

// Save writes the settings into dir so that a crash at any moment leaves either
// the former or the new ones.
func (s Settings) Save(dir string) error { panic("not yet") }
