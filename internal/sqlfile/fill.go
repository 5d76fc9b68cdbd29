package sqlfile

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Fill sets the fields of structs, which are given by pointers, to the statements of their names, as
// render returns them: the field ClaimReady to claim_ready. The names for fields of a nested struct
// begin with the name in its tag, if there is one:
//
//	Replays     ReplayStatements `sql:"replay_"`   // Replays.Start is replay_start
//	AnyRequeued string           `sql:",optional"` // there may be no such statement
//	Returns     bool             `sql:"-"`         // is none
//
// The error names each field without a statement and each statement without a field.
func (s *Statements) Fill(render func(text string) string, structs ...any) error {
	f := &filler{texts: s.texts, render: render, filled: make(map[string]bool)}
	for _, pointer := range structs {
		f.fill(reflect.ValueOf(pointer).Elem(), tag{})
	}
	for _, name := range slices.Sorted(maps.Keys(s.texts)) {
		if !f.filled[name] {
			f.fail("no field is for the statement %s", name)
		}
	}
	return errors.Join(f.errs...)
}

type filler struct {
	texts  map[string]string
	render func(text string) string
	filled map[string]bool
	errs   []error
}

func (f *filler) fail(format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

// fill sets the fields of a struct; in is the tag of the field that contains it.
func (f *filler) fill(v reflect.Value, in tag) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch t := in.of(field); {
		case t.name == "-":
		case field.Type.Kind() == reflect.Struct:
			f.fill(v.Field(i), t)
		case field.Type.Kind() == reflect.String && field.IsExported():
			f.set(v.Field(i), t.name+snake(field.Name), t.optional)
		default:
			f.fail("the field %s can hold no statement", field.Name)
		}
	}
}

// set sets a field to a statement.
func (f *filler) set(v reflect.Value, name string, optional bool) {
	text, found := f.texts[name]
	switch {
	case text != "":
		v.SetString(f.render(text))
	case !optional:
		f.fail("there is no statement %s", name)
	}
	if found {
		f.filled[name] = true
	}
}

// tag is what the tag of a field says.
type tag struct {
	name     string // "-", or how names of statements begin
	optional bool
}

// of returns the tag of a field of a struct that is in a field with this tag.
func (t tag) of(field reflect.StructField) tag {
	name, option, _ := strings.Cut(field.Tag.Get("sql"), ",")
	if name != "-" {
		name = t.name + name
	}
	return tag{name, t.optional || option == "optional"}
}

// snake returns the name of a field in snake case: AnyDue is any_due, PurgeIDs is purge_ids.
func snake(name string) string {
	var b strings.Builder
	was := '_'
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(was) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		was = r
	}
	return b.String()
}
