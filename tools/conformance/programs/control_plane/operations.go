package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// operation is one method of a generated client, as the request that it sends shows it.
type operation struct {
	module  *module
	client  reflect.Value
	name    string // such as ComputeClient.BeginDelete
	method  string
	path    []string // segments; those that the client fills are P0, P1, ...
	version string
	query   map[string]string // names of the parameters that a client demands, by P1, P2, ...
}

var (
	errCaptured = errors.New("captured")
	filled      = regexp.MustCompile(`^P\d+$`)
)

// capture is a transport that notes the request and sends nothing.
type capture struct{ request *http.Request }

func (c *capture) Do(request *http.Request) (*http.Response, error) {
	c.request = request
	return nil, errCaptured
}

type token string

func (t token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: string(t), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// operations calls every method of every client of a module, and notes the requests.
func operations(m *module) []operation {
	captured := &capture{}
	options := &arm.ClientOptions{DisableRPRegistration: true}
	options.Transport = captured
	options.Retry.MaxRetries = -1
	var found []operation
	for _, client := range clients(m, "P0", token("none"), options) {
		for number := range client.NumMethod() {
			captured.request = nil
			invoke(client.Method(number), nil, nil)
			if request := captured.request; request != nil {
				name, _ := request.Context().Value(runtime.CtxAPINameKey{}).(string)
				query := map[string]string{}
				for name, values := range request.URL.Query() {
					if filled.MatchString(values[0]) {
						query[values[0]] = name
					}
				}
				found = append(found, operation{
					module: m, client: client, name: name, method: request.Method,
					path:    strings.Split(strings.Trim(request.URL.EscapedPath(), "/"), "/"),
					version: request.URL.Query().Get("api-version"), query: query,
				})
			}
		}
	}
	return found
}

// clients makes all clients of a module.
func clients(m *module, subscription string, credential azcore.TokenCredential, options *arm.ClientOptions) []reflect.Value {
	given := []reflect.Value{
		reflect.ValueOf(subscription), reflect.ValueOf(credential), reflect.ValueOf(options),
	}
	// A few modules have no use for a subscription.
	factory := reflect.ValueOf(m.clients)
	made := factory.Call(given[len(given)-factory.Type().NumIn():])[0]
	var all []reflect.Value
	for number := range made.NumMethod() {
		maker := made.Method(number)
		arguments := make([]reflect.Value, maker.Type().NumIn())
		for i := range arguments {
			arguments[i] = reflect.ValueOf(subscription)
		}
		all = append(all, maker.Call(arguments)[0])
	}
	return all
}

// invoke calls a client's method; texts without a value are P1, P2, ... It returns the results, of the first
// page for a pager and of the end for a long-running operation, and the error.
func invoke(method reflect.Value, texts map[string]string, body []byte) (results []reflect.Value, failed error) {
	defer func() {
		if problem := recover(); problem != nil {
			failed = fmt.Errorf("%v", problem)
		}
	}()
	arguments, next := []reflect.Value{}, 0
	for i := range method.Type().NumIn() {
		kind := method.Type().In(i)
		argument := reflect.New(kind)
		switch {
		case kind == reflect.TypeFor[context.Context]():
			argument.Elem().Set(reflect.ValueOf(context.Background()))
		case kind.Kind() == reflect.String:
			next++
			text := "P" + strconv.Itoa(next)
			if given, there := texts[text]; there {
				text = given
			}
			argument.Elem().SetString(text)
		case kind.Kind() == reflect.Struct && len(body) > 0:
			if failed = json.Unmarshal(body, argument.Interface()); failed != nil {
				return nil, failed
			}
		}
		arguments = append(arguments, argument.Elem())
	}
	results = method.Call(arguments)
	if failed = lastError(results); failed != nil {
		return results, failed
	}
	ctx := reflect.ValueOf(context.Background())
	if pager := results[0].MethodByName("NextPage"); pager.IsValid() {
		results = pager.Call([]reflect.Value{ctx})
	} else if poller := results[0].MethodByName("PollUntilDone"); poller.IsValid() {
		often := reflect.ValueOf(&runtime.PollUntilDoneOptions{Frequency: time.Second})
		results = poller.Call([]reflect.Value{ctx, often})
	}
	return results, lastError(results)
}

func lastError(results []reflect.Value) error {
	failed, _ := results[len(results)-1].Interface().(error)
	return failed
}

// find returns the operation that a request reaches, with the values of its path; nil if there is
// none. Names of resources may have any form, all other segments must be equal in upper and lower case.
func find(all []operation, method, path string) (*operation, map[string]string) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	var best *operation
	var values map[string]string
	for i, one := range all {
		if one.method != method {
			continue
		}
		if given, ok := match(one.path, segments); ok && (best == nil || fixed(one.path) > fixed(best.path)) {
			best, values = &all[i], given
		}
	}
	return best, values
}

// provider returns the namespace that a path belongs to.
func provider(path string) string {
	if _, after, there := cutLast(path, "/providers/"); there {
		return strings.SplitN(after, "/", 2)[0]
	}
	if strings.Contains(strings.ToLower(path), "/resourcegroups") {
		return "resource groups"
	}
	return "subscriptions"
}

func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

func fixed(path []string) (count int) {
	for _, segment := range path {
		if !filled.MatchString(segment) {
			count++
		}
	}
	return count
}

func match(path, segments []string) (map[string]string, bool) {
	values := map[string]string{}
	// A scope, which comes first, is the id of any resource: several segments.
	if extra := len(segments) - len(path); extra > 0 && filled.MatchString(path[0]) && len(path) > 1 {
		segments = append([]string{strings.Join(segments[:extra+1], "/")}, segments[extra+1:]...)
	}
	if len(path) != len(segments) || fixed(path) == 0 {
		return nil, false
	}
	for i, segment := range path {
		if filled.MatchString(segment) {
			values[segment] = segments[i]
		} else if segment != segments[i] {
			return nil, false
		}
	}
	return values, true
}
