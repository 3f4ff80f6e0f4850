package speedwell

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A command, its values still escaped.
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
	for at, number := range numbers {
		if at > 0 {
			e.text.WriteByte(',')
		}
		e.text.WriteString(strconv.FormatInt(number, 10))
	}
	return e
}

// An event that nobody hears is no fault of ours.
func (e *event) send(to *os.File) { _, _ = to.WriteString(e.text.String() + "\n") }

func escaped(text string) string {
	var made strings.Builder
	for at := 0; at < len(text); at++ {
		if letter := text[at]; letter < 0x20 || letter == 0x7f || letter == '%' {
			fmt.Fprintf(&made, "%%%02X", letter)
		} else {
			made.WriteByte(letter)
		}
	}
	return made.String()
}

func unescaped(text string) string {
	var made strings.Builder
	for at := 0; at < len(text); at++ {
		if text[at] == '%' && at+2 < len(text) {
			if code, err := strconv.ParseUint(text[at+1:at+3], 16, 8); err == nil {
				made.WriteByte(byte(code))
				at += 2
				continue
			}
		}
		made.WriteByte(text[at])
	}
	return made.String()
}
