package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// request lets the fake server of an operation read a request. Every function of the fake notes that it
// was reached, and with which body.
func request(one sent, found *operation, _ map[string]string, said *judgement) {
	reached, parsed := false, reflect.Value{}
	servers, transport := found.module.servers()
	instrument(reflect.ValueOf(servers).Elem(), func(arguments []reflect.Value) {
		reached = true
		for _, argument := range arguments {
			if argument.Kind() == reflect.Struct && argument.Type().PkgPath() != "" {
				parsed = argument
			}
		}
	})
	ctx := context.WithValue(context.Background(), runtime.CtxAPINameKey{}, found.name)
	address := "https://management.azure.com" + one.Path + "?" + one.Query
	made, failed := http.NewRequestWithContext(ctx, one.Method, address, bytes.NewReader(one.Body))
	if failed == nil {
		made.Header.Set("Content-Type", "application/json")
		failed = serve(transport.Do, made)
	}
	given, _ := url.ParseQuery(one.Query)
	for _, name := range found.query {
		if !given.Has(name) {
			said.Problem = "lacks the parameter " + name
		}
	}
	switch {
	case said.Problem != "":
	case !reached && failed == nil:
		said.Problem = "the fake server has not read it"
	case !reached:
		said.Problem = failed.Error()
	case len(one.Body) > 0 && parsed.IsValid():
		said.compare(one.Body, parsed.Interface())
	case len(one.Body) > 0 && string(one.Body) != "null" && string(one.Body) != "{}":
		said.Problem = "has a body, and the operation takes none"
	}
}

// serve ends normally where a fake server has no answer to give.
func serve(do func(*http.Request) (*http.Response, error), made *http.Request) (failed error) {
	defer func() {
		if problem := recover(); problem != nil && failed == nil {
			failed = fmt.Errorf("%v", problem)
		}
	}()
	_, failed = do(made)
	return failed
}

// instrument gives every function of a fake server, and of the servers in it, a body that tells its arguments.
func instrument(server reflect.Value, tell func([]reflect.Value)) {
	for i := range server.NumField() {
		field := server.Field(i)
		switch field.Kind() {
		case reflect.Struct:
			instrument(field, tell)
		case reflect.Func:
			field.Set(reflect.MakeFunc(field.Type(), func(arguments []reflect.Value) []reflect.Value {
				tell(arguments)
				results := make([]reflect.Value, field.Type().NumOut())
				for n := range results {
					results[n] = reflect.Zero(field.Type().Out(n))
				}
				return results
			}))
		}
	}
}

// compare notes the properties that are in a document but not in what a module made of it.
func (said *judgement) compare(document []byte, parsed any) {
	var before, after any
	again, failed := json.Marshal(parsed)
	if failed == nil {
		failed = json.Unmarshal(document, &before)
	}
	if failed == nil {
		failed = json.Unmarshal(again, &after)
	}
	if failed != nil {
		said.Problem = failed.Error()
		return
	}
	lost(before, after, "", &said.Unknown)
	slices.Sort(said.Unknown)
	said.Unknown = slices.Compact(said.Unknown)
}

func lost(before, after any, place string, found *[]string) {
	switch value := before.(type) {
	case map[string]any:
		kept, _ := after.(map[string]any)
		for name, inner := range value {
			here := strings.TrimPrefix(place+"."+name, ".")
			if other, there := kept[name]; !there && inner != nil {
				*found = append(*found, here)
			} else if there {
				lost(inner, other, here, found)
			}
		}
	case []any:
		kept, _ := after.([]any)
		for i, inner := range value {
			if i < len(kept) {
				lost(inner, kept[i], place, found)
			}
		}
	}
}
