package main

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// A relay's state is a graph of plain data, with the unexported fields of its core in it. This file
// copies such a graph, and prints it so that equal graphs have equal prints, whatever their addresses
// are. How to do so is determined once for each type.

// shape is what is done with the values of a type.
type shape struct {
	of    reflect.Type
	flat  bool // a copy by assignment shares nothing that changes
	copy  func(c *copier, to, from unsafe.Pointer)
	print func(p *printer, at unsafe.Pointer)
}

// shapes are those of the types met so far.
type shapes map[reflect.Type]*shape

// unprinted are fields that do not affect what will happen.
var unprinted = map[string]bool{
	"Core.cfg": true, "Core.out": true, "Core.next": true, "attempts.ok": true, "Core.spare": true, "Core.stats": true, "relay.print": true,
}

// copier copies a graph; made has the copies of what pointers point to.
type copier struct {
	made map[unsafe.Pointer]unsafe.Pointer
}

// printer prints a graph; numbers has what pointers point to, in the order of traversal.
type printer struct {
	out     []byte
	numbers map[unsafe.Pointer]int
}

// clone returns a copy of what root points to that shares nothing with it.
func clone[T any](s shapes, root *T) *T {
	to := new(T)
	s.get(reflect.TypeFor[T]()).copy(&copier{make(map[unsafe.Pointer]unsafe.Pointer, 32)}, unsafe.Pointer(to), unsafe.Pointer(root))
	return to
}

// print128 is a hash of a print.
type print128 struct{ a, b uint64 }

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hash(print []byte) print128 {
	return print128{maphash.Bytes(hashSeeds[0], print), maphash.Bytes(hashSeeds[1], print)}
}

// fingerprint returns a number that is equal for equal graphs.
func fingerprint[T any](s shapes, root *T) print128 {
	p := &printer{numbers: make(map[unsafe.Pointer]int, 32)}
	s.get(reflect.TypeFor[T]()).print(p, unsafe.Pointer(root))
	return hash(p.out)
}

func (p *printer) number(n uint64) { p.out = binary.AppendUvarint(p.out, n) }

// get returns the shape of a type. It panics if states do not contain such types.
func (s shapes) get(t reflect.Type) *shape {
	if known := s[t]; known != nil {
		return known
	}
	made := &shape{of: t, flat: true}
	s[t] = made
	switch t.Kind() {
	case reflect.Bool:
		made.print = func(p *printer, at unsafe.Pointer) { p.out = append(p.out, *(*byte)(at)) }
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		made.print = func(p *printer, at unsafe.Pointer) { p.number(*(*uint64)(at)) }
	case reflect.String:
		made.print = func(p *printer, at unsafe.Pointer) {
			text := *(*string)(at)
			p.number(uint64(len(text)))
			p.out = append(p.out, text...)
		}
	case reflect.Struct:
		s.ofStruct(made)
	case reflect.Pointer:
		s.ofPointer(made)
	case reflect.Slice:
		s.ofSlice(made)
	case reflect.Map:
		s.ofMap(made)
	case reflect.Interface:
		s.ofInterface(made)
	default:
		panic("a state holds a " + t.String())
	}
	if made.copy == nil {
		made.copy = func(_ *copier, to, from unsafe.Pointer) { made.assign(to, from) }
	}
	return made
}

func (s *shape) at(p unsafe.Pointer) reflect.Value { return reflect.NewAt(s.of, p).Elem() }

func (s *shape) assign(to, from unsafe.Pointer) { s.at(to).Set(s.at(from)) }

func (s shapes) ofStruct(made *shape) {
	type field struct {
		*shape
		offset uintptr
	}
	var deep, printed []field
	for f := range made.of.Fields() {
		inner := field{s.get(f.Type), f.Offset}
		if !inner.flat {
			deep = append(deep, inner)
		}
		if !unprinted[made.of.Name()+"."+f.Name] {
			printed = append(printed, inner)
		}
	}
	made.flat = len(deep) == 0
	made.copy = func(c *copier, to, from unsafe.Pointer) {
		made.assign(to, from)
		for _, f := range deep {
			f.copy(c, unsafe.Add(to, f.offset), unsafe.Add(from, f.offset))
		}
	}
	made.print = func(p *printer, at unsafe.Pointer) {
		for _, f := range printed {
			f.print(p, unsafe.Add(at, f.offset))
		}
	}
}

func (s shapes) ofPointer(made *shape) {
	made.flat = false
	elem := made.of.Elem()
	made.copy = func(c *copier, to, from unsafe.Pointer) {
		old := *(*unsafe.Pointer)(from)
		if old == nil {
			return
		}
		fresh, known := c.made[old]
		if !known {
			fresh = reflect.New(elem).UnsafePointer()
			c.made[old] = fresh
			s.get(elem).copy(c, fresh, old)
		}
		*(*unsafe.Pointer)(to) = fresh
	}
	made.print = func(p *printer, at unsafe.Pointer) {
		target := *(*unsafe.Pointer)(at)
		n, known := p.numbers[target]
		if target != nil && !known {
			n = len(p.numbers) + 1
			p.numbers[target] = n
		}
		p.number(uint64(n))
		if target != nil && !known {
			s.get(elem).print(p, target)
		}
	}
}

func (s shapes) ofSlice(made *shape) {
	made.flat = false
	elem := s.get(made.of.Elem())
	size := made.of.Elem().Size()
	made.copy = func(c *copier, to, from unsafe.Pointer) {
		old := made.at(from)
		if old.IsNil() {
			return
		}
		fresh := reflect.MakeSlice(made.of, old.Len(), old.Len())
		made.at(to).Set(fresh)
		if elem.flat {
			reflect.Copy(fresh, old)
			return
		}
		for i := range uintptr(old.Len()) {
			elem.copy(c, unsafe.Add(fresh.UnsafePointer(), i*size), unsafe.Add(old.UnsafePointer(), i*size))
		}
	}
	made.print = func(p *printer, at unsafe.Pointer) {
		v := made.at(at)
		p.number(uint64(v.Len()))
		for i := range uintptr(v.Len()) {
			elem.print(p, unsafe.Add(v.UnsafePointer(), i*size))
		}
	}
}

func (s shapes) ofMap(made *shape) {
	made.flat = false
	key, elem := s.get(made.of.Key()), s.get(made.of.Elem())
	made.copy = func(c *copier, to, from unsafe.Pointer) {
		old := made.at(from)
		if old.IsNil() {
			return
		}
		fresh := reflect.MakeMapWithSize(made.of, old.Len())
		made.at(to).Set(fresh)
		for k, v := range old.Seq2() {
			kept, seen := reflect.New(elem.of).Elem(), reflect.New(elem.of).Elem()
			seen.Set(v)
			elem.copy(c, kept.Addr().UnsafePointer(), seen.Addr().UnsafePointer())
			fresh.SetMapIndex(k, kept)
		}
	}
	made.print = func(p *printer, at unsafe.Pointer) { // by the order of the keys' prints
		v := made.at(at)
		entries := make(map[string]reflect.Value, v.Len())
		names := make([]string, 0, v.Len())
		for k, value := range v.Seq2() {
			seen := reflect.New(key.of).Elem()
			seen.Set(k)
			name := printer{}
			key.print(&name, seen.Addr().UnsafePointer())
			names = append(names, string(name.out))
			entries[string(name.out)] = value
		}
		slices.SortFunc(names, strings.Compare)
		p.number(uint64(len(names)))
		for _, name := range names {
			seen := reflect.New(elem.of).Elem()
			seen.Set(entries[name])
			p.out = append(p.out, name...)
			elem.print(p, seen.Addr().UnsafePointer())
		}
	}
}

// ofInterface: errors do not change, and are printed as their texts.
func (s shapes) ofInterface(made *shape) {
	isError := made.of.Implements(reflect.TypeFor[error]())
	made.flat = isError
	made.copy = func(c *copier, to, from unsafe.Pointer) {
		old := made.at(from)
		if isError || old.IsNil() {
			made.assign(to, from)
			return
		}
		inner := s.get(old.Elem().Type())
		fresh, seen := reflect.New(inner.of).Elem(), reflect.New(inner.of).Elem()
		seen.Set(old.Elem())
		inner.copy(c, fresh.Addr().UnsafePointer(), seen.Addr().UnsafePointer())
		made.at(to).Set(fresh)
	}
	made.print = func(p *printer, at unsafe.Pointer) {
		v := made.at(at)
		switch {
		case v.IsNil():
			p.number(0)
		case isError:
			p.out = append(p.out, v.Interface().(error).Error()...)
		default:
			inner := s.get(v.Elem().Type())
			seen := reflect.New(inner.of).Elem()
			seen.Set(v.Elem())
			p.out = append(p.out, inner.of.Name()...)
			inner.print(p, seen.Addr().UnsafePointer())
		}
	}
}
