package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Errors is all that is wrong with a file, in the file's order.
type Errors struct {
	// File is the name of the file.
	File     string
	Problems []Problem
}

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Line and Column count from 1, columns in characters. Line is 0 where
	// something is missing that the file has no place for.
	Line, Column int
	// Key is the whole key, such as "peer[0].address"; empty where the text is
	// no TOML.
	Key string
	// Message names the fault and the remedy.
	Message string

	source string
	width  int
}

// Error returns all problems, each with its line and a caret below it.
func (e *Errors) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "in %s:", e.File)
	for i, problem := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
		b.WriteString(problem.String())
	}
	return b.String()
}

// String returns the problem with its line and a caret below it.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Message
	}
	number := strconv.Itoa(p.Line)
	margin := strings.Repeat(" ", len(number))
	caret := strings.Repeat(" ", p.Column-1) + strings.Repeat("^", max(p.width, 1))
	return fmt.Sprintf("line %s, column %d\n%s |\n%s | %s\n%s | %s\n%s",
		number, p.Column, margin, number, p.source, margin, caret, p.Message)
}

// span is a place in a text: bytes from start to end.
type span struct{ start, end int }

// problem frames a message for a place in the text; nil: none.
func problem(text []byte, at *span, key, message string) Problem {
	p := Problem{Key: key, Message: message}
	if at == nil {
		return p
	}
	before := string(text[:at.start])
	lineStart := strings.LastIndexByte(before, '\n') + 1
	line, _, _ := strings.Cut(string(text[lineStart:]), "\n")
	line = strings.TrimSuffix(line, "\r")
	p.Line = strings.Count(before, "\n") + 1
	p.Column = utf8.RuneCountInString(before[lineStart:]) + 1
	// A tab is as wide as the terminal likes, which would move the caret.
	p.source = strings.ReplaceAll(line, "\t", " ")
	end := min(at.end, lineStart+len(line))
	p.width = utf8.RuneCount(text[at.start:max(at.start, end)])
	return p
}

// sortProblems brings them into the file's order, those without a place last.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
