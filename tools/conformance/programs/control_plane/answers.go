package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
)

// recorder is a transport that keeps the last answer.
type recorder struct {
	client *http.Client
	body   []byte
}

func (r *recorder) Do(request *http.Request) (*http.Response, error) {
	response, failed := r.client.Do(request)
	if failed != nil {
		return nil, failed
	}
	r.body, failed = io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(r.body))
	return response, failed
}

// answers returns a judge that calls the operation at another address, and compares the answer with that
// which the client made of it.
func answers(address, bearer, authority, subscription string) func(sent, *operation, map[string]string, *judgement) {
	certificates := x509.NewCertPool()
	trusted, failed := os.ReadFile(authority)
	if failed != nil || !certificates.AppendCertsFromPEM(trusted) {
		fmt.Fprintln(os.Stderr, authority, "is no certificate", failed)
		os.Exit(2)
	}
	last := &recorder{client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: certificates},
	}}}
	options := &arm.ClientOptions{DisableRPRegistration: true}
	options.Transport = last
	options.Retry.MaxRetries = -1
	options.Cloud = cloud.Configuration{Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
		cloud.ResourceManager: {Endpoint: address, Audience: address},
	}}
	return func(one sent, found *operation, values map[string]string, said *judgement) {
		texts := map[string]string{}
		for place, text := range values {
			texts[place] = text
			if plain, failed := url.PathUnescape(text); failed == nil {
				texts[place] = plain
			}
		}
		given, _ := url.ParseQuery(one.Query)
		for place, name := range found.query {
			texts[place] = given.Get(name)
		}
		*last = recorder{client: last.client}
		for _, client := range clients(found.module, subscription, token(bearer), options) {
			if client.Type() != found.client.Type() {
				continue
			}
			name := found.name[strings.Index(found.name, ".")+1:]
			results, failed := invoke(client.MethodByName(name), texts, one.Body)
			if failed != nil {
				said.Problem = failed.Error()
				var refused *azcore.ResponseError
				if errors.As(failed, &refused) {
					said.Problem = fmt.Sprintf("%d %s", refused.StatusCode, refused.ErrorCode)
				}
			} else if len(results) == 2 && results[0].Kind() == reflect.Struct && results[0].NumField() > 0 && len(last.body) > 0 {
				said.compare(last.body, results[0].Field(0).Interface())
			}
		}
	}
}
