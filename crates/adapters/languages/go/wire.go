package speedwell

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A command; its values are still escaped.
type command struct {
	verb   string
	fields map[string]string
}

func parse(line string) *command {
	words := strings.Split(line, "\t")
	made := &command{verb: words[0], fields: map[string]string{}}
	for _, word := range words[1:] {
		if key, value, found := strings.Cut(word, "="); found {
			made.fields[key] = value
		}
	}
	return made
}

func (c *command) text(key string) string { return unescaped(c.fields[key]) }

func (c *command) number(key string, otherwise int64) int64 {
	number, err := strconv.ParseInt(c.text(key), 10, 64)
	if err != nil {
		return otherwise
	}
	return number
}

// An event under construction.
type event struct{ text strings.Builder }

func answer(verb string, cause *command) *event {
	made := &event{}
	made.text.WriteString(verb)
	if cause != nil && cause.fields["id"] != "" {
		made.with("id", cause.text("id"))
	}
	return made
}

func (e *event) with(key string, value any) *event {
	e.text.WriteString("\t" + key + "=" + escaped(fmt.Sprint(value)))
	return e
}

func (e *event) list(key string, numbers []int64) *event {
	e.text.WriteString("\t" + key + "=")
	for i, number := range numbers {
		if i > 0 {
			e.text.WriteByte(',')
		}
		e.text.WriteString(strconv.FormatInt(number, 10))
	}
	return e
}

// Errors are ignored: the other side may have gone.
func (e *event) send(to *os.File) { _, _ = to.WriteString(e.text.String() + "\n") }

func escaped(text string) string {
	var made strings.Builder
	for i := 0; i < len(text); i++ {
		if letter := text[i]; letter < 0x20 || letter == 0x7f || letter == '%' {
			fmt.Fprintf(&made, "%%%02X", letter)
		} else {
			made.WriteByte(letter)
		}
	}
	return made.String()
}

func unescaped(text string) string {
	var made strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				made.WriteByte(byte(code))
				i += 2
				continue
			}
		}
		made.WriteByte(text[i])
	}
	return made.String()
}
