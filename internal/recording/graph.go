package recording

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"reflect"
	"sync"
	"unsafe"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// graph codes the state of a core by reflection: values field by field, and the targets of pointers one
// after the other, in the order in which they were first met. So a new field of the core is included
// without a change here, and the recursion depth is that of types, not of data.
//
// Of an error it codes whether there is one: the core does not inspect those that it keeps. The
// shell's data ([relaycore.Message.Tag]) and the commands of the last step are left out.
type graph struct {
	*coder
	numbers map[object]uint64 // of objects, when writing
	objects []reflect.Value   // pointers, in the order of their numbers
}

type object struct {
	at  unsafe.Pointer
	typ reflect.Type
}

var (
	errorType    = reflect.TypeFor[error]()
	commandsType = reflect.TypeFor[[]relaycore.Command]()
)

// core codes a core, and everything that it refers to. When reading it returns a new one.
func (g *graph) core(c *relaycore.Core) *relaycore.Core {
	g.numbers, g.objects = make(map[object]uint64), nil
	root := reflect.ValueOf(&c).Elem()
	g.value(root)
	for i := 0; i < len(g.objects) && g.err == nil; i++ {
		g.value(g.objects[i].Elem())
	}
	if c == nil {
		g.failf("there is no core")
	}
	return c
}

// value codes a value. One that is read must be addressable.
func (g *graph) value(v reflect.Value) {
	if g.reading {
		v = settable(v)
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64, reflect.String:
		g.scalar(v)
	case reflect.Struct:
		for i := range v.NumField() {
			g.value(v.Field(i))
		}
	case reflect.Slice:
		if v.Type() != commandsType {
			g.slice(v)
		}
	case reflect.Map:
		g.mapping(v)
	case reflect.Pointer:
		g.pointer(v)
	case reflect.Interface:
		g.failureOf(v)
	default:
		g.failf("a value of type %v cannot be recorded", v.Type())
	}
}

func (g *graph) scalar(v reflect.Value) {
	var bits uint64
	var n int64
	var text string
	switch v.Kind() {
	case reflect.String:
		if !g.reading {
			text = v.String()
		}
		if g.text(&text); g.reading {
			v.SetString(text)
		}
	case reflect.Int, reflect.Int64:
		if !g.reading {
			n = v.Int()
		}
		if number(g.coder, &n); g.reading {
			v.SetInt(n)
		}
	case reflect.Bool:
		yes := !g.reading && v.Bool()
		if g.flags(&yes); g.reading {
			v.SetBool(yes)
		}
	case reflect.Float64:
		if !g.reading {
			bits = math.Float64bits(v.Float())
		}
		if g.uint(&bits); g.reading {
			v.SetFloat(math.Float64frombits(bits))
		}
	case reflect.Uint64:
		if !g.reading {
			bits = v.Uint()
		}
		if g.uint(&bits); g.reading {
			v.SetUint(bits)
		}
	}
}

func (g *graph) slice(v reflect.Value) {
	n := v.Len()
	g.count(&n)
	for i := 0; i < n && g.err == nil; i++ {
		if g.reading {
			v.Grow(1)
			v.SetLen(i + 1)
		}
		g.value(v.Index(i))
	}
}

func (g *graph) mapping(v reflect.Value) {
	n := v.Len()
	g.count(&n)
	if !g.reading {
		for all := v.MapRange(); all.Next(); {
			g.value(all.Key())
			g.value(all.Value())
		}
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i < n && g.err == nil; i++ {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		g.value(key)
		g.value(value)
		v.SetMapIndex(key, value)
	}
}

// pointer codes the number of an object: 0 for nil. A new object gets the next number.
func (g *graph) pointer(v reflect.Value) {
	var number uint64
	if !g.reading {
		if !v.IsNil() {
			number = g.number(v)
		}
		g.uint(&number)
		return
	}
	g.uint(&number)
	switch known := uint64(len(g.objects)); {
	case number == 0:
		v.SetZero()
	case number == known+1:
		made := reflect.New(v.Type().Elem())
		g.objects = append(g.objects, made)
		v.Set(made)
	case number <= known && g.objects[number-1].Type() == v.Type():
		v.Set(g.objects[number-1])
	default:
		g.failf("there is no such %v as number %d", v.Type(), number)
	}
}

func (g *graph) number(v reflect.Value) uint64 {
	o := object{v.UnsafePointer(), v.Type()}
	n := g.numbers[o]
	if n == 0 {
		g.objects = append(g.objects, v)
		n = uint64(len(g.objects))
		g.numbers[o] = n
	}
	return n
}

// failureOf codes whether there is an error. Any other interface belongs to the shell.
func (g *graph) failureOf(v reflect.Value) {
	if v.Type() != errorType {
		return
	}
	some := !v.IsNil()
	if g.flags(&some); g.reading && some {
		v.Set(reflect.ValueOf(errRecorded))
	}
}

// settable makes an unexported field settable.
func settable(v reflect.Value) reflect.Value {
	if v.CanSet() {
		return v
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// layout is a checksum of the types of a core: data that was written with another layout cannot be
// read.
var layout = sync.OnceValue(func() uint64 {
	sum, seen := fnv.New64a(), make(map[reflect.Type]bool)
	describe(sum, reflect.TypeFor[relaycore.Core](), seen)
	return sum.Sum64()
})

func describe(to io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprint(to, t, t.Kind())
	if seen[t] || t == commandsType {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			fmt.Fprint(to, t.Field(i).Name)
			describe(to, t.Field(i).Type, seen)
		}
	case reflect.Map:
		describe(to, t.Key(), seen)
		describe(to, t.Elem(), seen)
	case reflect.Slice, reflect.Pointer:
		describe(to, t.Elem(), seen)
	}
}

var errOtherVersion = errors.New("the recording was made by a relay of another version")
