package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Settings has the values that were set through the API and outlive the process.
type Settings struct {
	// Drains by the name of the path.
	Drains map[string]Drain `json:"drains"`
	// Policies in the order of names.
	Policies List[Policy] `json:"policies"`
	// Peers that were added to a border's configuration, by name.
	Peers map[string]PeerSettings `json:"peers,omitempty"`
}

// settingsFile is the name of the file in the state directory.
const settingsFile = "settings.json"

// LoadSettings reads the settings that [Settings.Save] wrote into dir; none where nothing was
// written. Drains is never nil.
func LoadSettings(dir string) (Settings, error) {
	settings := Settings{Drains: map[string]Drain{}}
	path := filepath.Join(dir, settingsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return settings, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("reading drains, policies and peers from %s (remove it to begin without any): %w", path, err)
	}
	if settings.Drains == nil {
		settings.Drains = map[string]Drain{}
	}
	return settings, nil
}

// Save writes the settings into dir, which it makes (0750) if it is not there.
// A crash at any moment leaves either the former or the new ones; when Save has
// returned, the new ones survive a loss of power.
func (s Settings) Save(dir string) error {
	path := filepath.Join(dir, settingsFile)
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = replaceFile(path, append(text, '\n'), (*os.File).Sync)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("writing drains, policies and peers to %s: %w", path, err)
	}
	return nil
}

// ReplaceFile writes a file of the state directory, which it makes (0750) if it is not
// there. A crash of the process at any moment leaves either the former text or the new one.
// A loss of power may leave an empty file. It does not wait for the disk.
func ReplaceFile(path string, text []byte) error {
	return replaceFile(path, text, func(*os.File) error { return nil })
}

func replaceFile(path string, text []byte, sync func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	// A fixed name: a file that a crash leaves is overwritten, not collected.
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, sync(file), file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
