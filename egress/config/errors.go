package config

// Errors is all that is wrong with a file, in the file's order.
type Errors struct {
	// File is the name of the file.
	File     string
	Problems []Problem
}

// Error returns all problems, each with its line and a caret below it.
func (e *Errors) Error() string { panic("not yet") }

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Line and Column count from 1; columns count characters.
	Line, Column int
	// Key is the whole key, such as "peer[0].address".
	Key string
	// Message says what is wrong and what to do.
	Message string

	source string
	width  int
}
