package nn

import (
	"reflect"
	"strings"
	"sync"

	"github.com/locusml/locus"
)

// field is one field of a struct that belongs to a network.
type field struct {
	index int
	name  string // its part of the path; "" for none
	tag   string // "param", "buffer" or ""
}

var fieldCache sync.Map // reflect.Type to []field or *locus.Error

// fieldsOf lists the fields of a struct that belong to a network. It panics where
// a tag cannot mean anything, so that nothing is left out in silence.
func fieldsOf(t reflect.Type) []field {
	v, ok := fieldCache.Load(t)
	if !ok {
		l, err := readFields(t)
		if v = l; err != nil {
			v = err
		}
		fieldCache.Store(t, v)
	}
	if err, bad := v.(*locus.Error); bad {
		panic(err)
	}
	return v.([]field)
}

func readFields(t reflect.Type) ([]field, *locus.Error) {
	l := []field{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("nn")
		where := t.String() + "." + f.Name
		switch tag {
		case "-":
			continue
		case "", "inline", "param", "buffer":
		default:
			return nil, tagError(where+" has the tag `nn:\""+tag+"\"`, which means nothing", "`nn:\"param\"`, `nn:\"buffer\"`, `nn:\"inline\"` or `nn:\"-\"`")
		}
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			if f.Anonymous && contains(f.Type, nil) {
				return nil, tagError(where+" is an embedded pointer to a type that is not exported: the layers below it cannot be copied", "embed the struct itself, or export its type")
			}
			if tag != "" {
				return nil, tagError(where+" has the tag `nn:\""+tag+"\"`, but is not exported: only its own package can reach it",
					"call the field "+strings.ToUpper(f.Name[:1])+f.Name[1:])
			}
			continue
		}
		if kind := leafOf(f.Type); tag == "param" || tag == "buffer" {
			switch {
			case kind == bufferType && tag == "param":
				return nil, tagError(where+" is a *nn.Buffer, which is not trained", "make it a *nn.Parameter, or leave the tag out")
			case !holdsTensor(kind) && kind.Kind() != reflect.Interface && (tag == "buffer" || !structural(kind)):
				return nil, tagError(where+" is a "+f.Type.String()+", which the tag `nn:\""+tag+"\"` cannot make a tensor of the network",
					"tags are for fields of type *locus.Tensor; freeze a layer with nn.Freeze")
			}
		}
		if leaf := leafOf(f.Type); leaf == parameterType.Elem() || leaf == bufferType.Elem() {
			return nil, tagError(where+" is a "+leaf.String()+" by value, which cannot be shared", "make it a *"+leaf.String())
		}
		name := fieldName(f.Name)
		if tag == "inline" {
			name, tag = "", ""
		}
		if f.Anonymous {
			name = ""
		}
		l = append(l, field{i, name, tag})
	}
	return l, nil
}

// leafOf returns the type of what a field holds in the end, through slices, arrays
// and maps.
func leafOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// structural reports whether a type may contain layers.
func structural(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != tensorType.Elem() || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

// contains reports whether a value of type t may have tensors of a network in it.
func contains(t reflect.Type, seen map[reflect.Type]bool) bool {
	t = leafOf(t)
	if holdsTensor(t) || t == reflect.TypeFor[Module]() {
		return t != tensorType
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return false
	}
	if seen == nil {
		seen = map[reflect.Type]bool{}
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if tag := f.Tag.Get("nn"); tag != "-" && f.IsExported() && (tag != "" && leafOf(f.Type) == tensorType || contains(f.Type, seen)) {
			return true
		}
	}
	return false
}

func tagError(msg, fix string) *locus.Error {
	return &locus.Error{Kind: locus.ErrArgument, Op: "nn.State", Msg: msg, Fix: fix}
}
