package nethttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/adapters/nethttp"
	"github.com/outrider-jobs/outrider/job"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	parent   = "00-" + traceID + "-" + parentID + "-01"
)

// header is a header of a request, with a line for each value.
type header map[string][]string

// annotated is the meta that a job of a request with those headers gets.
func annotated(h header, o nethttp.Options, meta string) string {
	r := httptest.NewRequest("POST", "/orders", nil)
	for name, values := range h {
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
	var got job.Envelope
	nethttp.Middleware(o)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = nethttp.Annotate(r.Context(), envelope(meta))
	})).ServeHTTP(httptest.NewRecorder(), r)
	return string(got.Meta)
}

func envelope(meta string) job.Envelope {
	e := job.Envelope{Type: "email.send", Args: json.RawMessage(`[]`)}
	if meta != "" {
		e.Meta = json.RawMessage(meta)
	}
	return e
}

func says(s string) func(*http.Request) string { return func(*http.Request) string { return s } }

func TestAJobIsToldWhatItsRequestKnows(t *testing.T) {
	t.Parallel()
	all := header{"X-Request-Id": {"req_1"}, "X-OJS-Tenant": {"acme"}, "Accept-Language": {"de-AT,de;q=0.9,en;q=0.8"},
		"traceparent": {parent}, "tracestate": {"rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE"}}
	trace := `"trace_id":"` + traceID + `","traceparent":"` + parent + `","tracestate":"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"`
	some := header{"X-Request-Id": {"req_1"}, "Accept-Language": {"de"}}
	for _, c := range []struct {
		name string
		h    header
		o    nethttp.Options
		meta string
		want string
	}{
		{"everything", all, nethttp.Options{User: says("7"), Tenant: nethttp.TenantHeader}, "",
			`{"request_id":"req_1","user_id":"7","tenant_id":"acme","locale":"de-AT",` + trace + `}`},
		{"no header names a user or a tenant by itself", all, nethttp.Options{}, "", `{"request_id":"req_1","locale":"de-AT",` + trace + `}`},
		{"functions come before headers", all, nethttp.Options{RequestID: says("own"), Tenant: says("mine"), Locale: says("fr")}, "",
			`{"request_id":"own","tenant_id":"mine","locale":"fr",` + trace + `}`},
		{"a function that knows nothing", some, nethttp.Options{RequestID: says(""), User: says(""), Tenant: says("")}, "", `{"locale":"de"}`},
		{"a request that says nothing", nil, nethttp.Options{}, "", ""},
		{"a request that says nothing, and a meta", nil, nethttp.Options{}, ` { "a" : 1 } `, ` { "a" : 1 } `},
		{"behind the caller's members", some, nethttp.Options{}, ` {"a": [1, {"b":2}]} `, `{"a": [1, {"b":2}],"request_id":"req_1","locale":"de"}`},
		{"into an empty object", some, nethttp.Options{}, "\n{ }", `{"request_id":"req_1","locale":"de"}`},
		{"what the caller has set stays", some, nethttp.Options{User: says("7")}, `{"locale":"en","user_id":null}`, `{"locale":"en","user_id":null,"request_id":"req_1"}`},
		{"an escaped name is the same name", some, nethttp.Options{}, `{"\u006cocale":"en"}`, `{"\u006cocale":"en","request_id":"req_1"}`},
		{"nothing is left to say", some, nethttp.Options{}, `{"locale":"en","request_id":"x"}`, `{"locale":"en","request_id":"x"}`},
		{"a name within a value is not a member", some, nethttp.Options{}, `{"a":{"locale":1}}`, `{"a":{"locale":1},"request_id":"req_1","locale":"de"}`},
		{"a trace of the caller's is not mixed: traceparent", all, nethttp.Options{}, `{"traceparent":"x"}`, `{"traceparent":"x","request_id":"req_1","locale":"de-AT"}`},
		{"a trace of the caller's is not mixed: trace_id", all, nethttp.Options{}, `{"trace_id":"x"}`, `{"trace_id":"x","request_id":"req_1","locale":"de-AT"}`},
		{"a trace of the caller's is not mixed: tracestate", all, nethttp.Options{}, `{"tracestate":""}`, `{"tracestate":"","request_id":"req_1","locale":"de-AT"}`},
		{"no object", some, nethttp.Options{}, `[1]`, `[1]`},
		{"null", some, nethttp.Options{}, `null`, `null`},
		{"no JSON", some, nethttp.Options{}, `{"a":"}`, `{"a":"}`},
		{"a name twice", some, nethttp.Options{}, `{"a":1,"a":2}`, `{"a":1,"a":2}`},
		{"a name that a program may use", some, nethttp.Options{User: says(`Ada "L" ü`)}, "", `{"request_id":"req_1","user_id":"Ada \"L\" ü","locale":"de"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := annotated(c.h, c.o, c.meta); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestHostileHeadersAreDropped(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		name   string
		member string
		header string
		keeps  []string
		drops  []string
	}{
		{"request id", "request_id", "X-Request-Id",
			[]string{"req_0190", "8e03978e-40d5-43e8-bc93-6894a57f9324", "a/b+c=:.~@", long(128)},
			[]string{"", long(129), "a b", `a"b`, "a\nb", "a\r\nX-Evil: 1", "a\x00b", "<script>", "ü", "a\xff", "%0a", "a,b", "{}", "$(id)", "\u202e1"}},
		{"tenant", "tenant_id", "X-OJS-Tenant",
			[]string{"acme", "0", "a.b_c-D", long(128)},
			[]string{"", long(129), ".acme", "-acme", "ac me", "acme\n", "a/b", "*", "ä", "acme\x00"}},
		{"locale", "locale", "Accept-Language",
			[]string{"de", "zh-Hant-TW", "es-419", "de-CH-1996", "sl-rozaj-biske-1994"},
			[]string{"", "*", "d", "de_AT", "de-", "-de", "../../etc/passwd", "de AT", long(9), "de-" + long(9), "de-a-b-c-d-e", "1-de", "de\x00", strings.Repeat("de-", 1<<16)}},
		{"traceparent", "traceparent", "traceparent",
			[]string{parent, "00-" + traceID + "-" + parentID + "-00", "00-" + traceID + "-" + parentID + "-03"},
			[]string{"", "00", "00-" + traceID + "-" + parentID, strings.ToUpper(parent), parent + "-", parent + "-00", parent + "0", " " + parent,
				"ff-" + traceID + "-" + parentID + "-01", "0g-" + traceID + "-" + parentID + "-01", "00-" + strings.Repeat("0", 32) + "-" + parentID + "-01",
				"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", "00_" + traceID + "_" + parentID + "_01", "00-" + traceID + "-" + parentID + "-0x",
				"01-" + traceID + "-" + parentID + "-01x", "01-" + traceID + "-" + parentID + "-01-" + long(512), "cc-" + traceID + "-" + parentID + "-0"}},
	} {
		o := nethttp.Options{Tenant: nethttp.TenantHeader}
		for _, v := range c.keeps {
			if got := member(t, annotated(header{c.header: {v}}, o, ""), c.member); got != v {
				t.Errorf("%s %q: got %q", c.name, v, got)
			}
		}
		for _, v := range c.drops {
			if got := annotated(header{c.header: {v}}, o, ""); got != "" {
				t.Errorf("%s %.200q: got %.200s", c.name, v, got)
			}
		}
		if c.member != "locale" { // of which there may be several lines
			if got := annotated(header{c.header: {c.keeps[0], c.keeps[1]}}, o, ""); got != "" {
				t.Errorf("%s twice: got %s", c.name, got)
			}
		}
	}
}

func TestTheFirstLanguageIsTaken(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"de-AT, de;q=0.9, en;q=0.8": "de-AT", " fr ;q=0.3,en": "fr", "en,": "en", "en;": "en"} {
		if got := member(t, annotated(header{"Accept-Language": {in}}, nethttp.Options{}, ""), "locale"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestALaterTraceparentIsWrittenAsVersion00(t *testing.T) {
	t.Parallel()
	for in, flags := range map[string]string{
		"01-" + traceID + "-" + parentID + "-01":            "01",
		"fe-" + traceID + "-" + parentID + "-ff-what-ever!": "03",
		"cc-" + traceID + "-" + parentID + "-08-":           "00",
	} {
		want := "00-" + traceID + "-" + parentID + "-" + flags
		if got := member(t, annotated(header{"Traceparent": {in}}, nethttp.Options{}, ""), "traceparent"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestTracestate(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("k%d=v", i))
		}
		return strings.Join(list, ",")
	}
	long := func(n int) string { return "k=" + strings.Repeat("v", n) }
	for _, c := range []struct {
		name string
		in   []string
		want string
	}{
		{"one", []string{"a=1"}, "a=1"},
		{"several lines are one list", []string{"a=1", "b=2,c=3"}, "a=1,b=2,c=3"},
		{"holes and spaces", []string{" a=1 ,, \t b=2,", ""}, "a=1,b=2"},
		{"a tenant's key", []string{"fw529a3039@dt=FfFfFf", "0a@b/-*_=~"}, "fw529a3039@dt=FfFfFf,0a@b/-*_=~"},
		{"spaces within a value", []string{"a= x y"}, "a= x y"},
		{"32 members", []string{many(32)}, many(32)},
		{"33 members", []string{many(33)}, ""},
		{"256 characters", []string{long(256)}, long(256)},
		{"257 characters", []string{long(257)}, ""},
		{"512 in all", []string{long(256), "l=" + strings.Repeat("v", 251)}, long(256) + ",l=" + strings.Repeat("v", 251)},
		{"513 in all", []string{long(256), "l=" + strings.Repeat("v", 252)}, ""},
		{"very long", []string{strings.Repeat("a=1,", 1<<16)}, ""},
		{"a key twice", []string{"a=1", "a=2"}, ""},
		{"no value", []string{"a="}, ""},
		{"no key", []string{"=1"}, ""},
		{"no equals sign", []string{"a"}, ""},
		{"two equals signs", []string{"a=b=c"}, ""},
		{"an upper-case key", []string{"A=1"}, ""},
		{"a digit first without a tenant", []string{"1a=1"}, ""},
		{"two tenants", []string{"a@b@c=1"}, ""},
		{"a control character", []string{"a=\x01"}, ""},
		{"a tab in a value", []string{"a=1\t2"}, ""},
		{"not ASCII", []string{"a=ü"}, ""},
		{"one bad member spoils the list", []string{"a=1,B=2"}, ""},
		{"none", nil, ""},
	} {
		got := annotated(header{"traceparent": {parent}, "tracestate": c.in}, nethttp.Options{}, "")
		if s := member(t, got, "tracestate"); s != c.want {
			t.Errorf("%s: got %q, want %q", c.name, s, c.want)
		}
		if p := member(t, got, "traceparent"); p != parent {
			t.Errorf("%s: the traceparent became %q", c.name, p)
		}
	}
	if got := annotated(header{"tracestate": {"a=1"}}, nethttp.Options{}, ""); got != "" {
		t.Errorf("without a traceparent: got %s", got)
	}
	if got := annotated(header{"traceparent": {"bad"}, "tracestate": {"a=1"}}, nethttp.Options{}, ""); got != "" {
		t.Errorf("with a bad traceparent: got %s", got)
	}
}

func TestWhatAFunctionReturnsIsBoundedToo(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{strings.Repeat("u", 257), "a\nb", "a\x00", "\xff", "a\u0085b"} {
		if got := annotated(nil, nethttp.Options{User: says(bad), RequestID: says(bad + " "), Tenant: says(bad + "/" + strings.Repeat("t", 128)), Locale: says(bad)}, ""); got != "" {
			t.Errorf("%.40q: got %.80s", bad, got)
		}
	}
}

func TestAMetaNeverGrowsOverItsLimit(t *testing.T) {
	t.Parallel()
	h := header{"X-Request-Id": {"r"}} // adds 17 bytes: ,"request_id":"r"
	for _, c := range []struct{ size, want int }{{job.MaxMetaBytes - 17, job.MaxMetaBytes}, {job.MaxMetaBytes - 16, job.MaxMetaBytes - 16}, {job.MaxMetaBytes + 9, job.MaxMetaBytes + 9}} {
		meta := `{"a":"` + strings.Repeat("x", c.size-8) + `"}`
		if got := annotated(h, nethttp.Options{}, meta); len(got) != c.want {
			t.Errorf("%d bytes became %d, want %d", len(meta), len(got), c.want)
		}
	}
}

func TestTheCallersEnvelopeIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Request-Id", "r")
	ctx := nethttp.Context(r, nethttp.Options{})
	backing := []byte(`{"a":1}  and more`)
	e := envelope("")
	e.Meta = backing[:7]
	first, second := nethttp.Annotate(ctx, e), nethttp.Annotate(ctx, e)
	first.Meta[1] = 'X'
	if string(e.Meta) != `{"a":1}` || string(backing) != `{"a":1}  and more` || string(second.Meta) != `{"a":1,"request_id":"r"}` {
		t.Errorf("got %s, %s, %s", e.Meta, backing, second.Meta)
	}
	if twice := nethttp.Annotate(ctx, second); string(twice.Meta) != string(second.Meta) {
		t.Errorf("twice: got %s", twice.Meta)
	}
	again := nethttp.Annotate(t.Context(), e) // without a request
	if string(again.Meta) != `{"a":1}` {
		t.Errorf("without a request: got %s", again.Meta)
	}
}

func TestAnAnnotatedEnvelopeIsValid(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Request-Id", "r")
	c, err := job.ParseEnvelope([]byte(`{"type":"a","args":[],"meta":{"a":1},"unique":{"keys":["meta"],"meta_keys":["request_id"],"period":"PT1H"}}`))
	if err != nil {
		t.Fatal(err)
	}
	e := nethttp.Annotate(nethttp.Context(r, nethttp.Options{}), c.Envelope())
	if _, err := e.Check(); err != nil || string(e.Meta) != `{"a":1,"request_id":"r"}` {
		t.Errorf("got %s, %v", e.Meta, err)
	}
}

func TestTheInnerMiddlewareCounts(t *testing.T) {
	t.Parallel()
	h := http.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if got := nethttp.Annotate(r.Context(), envelope("")); string(got.Meta) != `{"user_id":"inner"}` {
			t.Errorf("got %s", got.Meta)
		}
	}))
	for _, user := range []string{"inner", "outer"} {
		h = nethttp.Middleware(nethttp.Options{User: says(user), Tenant: func(*http.Request) string {
			if user == "outer" {
				return "acme"
			}
			return ""
		}})(h)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
}

// A request's context outlives its handler where a goroutine has it.
func TestAContextMayBeUsedByMany(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Request-Id", "r")
	ctx := context.WithoutCancel(nethttp.Context(r, nethttp.Options{}))
	done := make(chan string)
	for range 8 {
		go func() { done <- string(nethttp.Annotate(ctx, envelope(`{"a":1}`)).Meta) }()
	}
	r.Header.Set("X-Request-Id", "other")
	for range 8 {
		if got := <-done; got != `{"a":1,"request_id":"r"}` {
			t.Errorf("got %s", got)
		}
	}
}

func FuzzAnnotate(f *testing.F) {
	f.Add("req_1", "de", parent, "a=1", `{"a":1}`)
	f.Add("a\nb", "*", "01-"+traceID+"-"+parentID+"-ff-x", "a=1,,b@c=2", `{"locale":1}`)
	f.Fuzz(func(t *testing.T, id, language, parent, state, meta string) {
		got := annotated(header{"X-Request-Id": {id}, "Accept-Language": {language}, "Traceparent": {parent}, "Tracestate": {state}},
			nethttp.Options{User: says(id), Tenant: says(language)}, meta)
		before, after := envelope(meta), envelope(got)
		_, was := before.Check()
		if _, err := after.Check(); was == nil && err != nil {
			t.Errorf("%q is no meta any more: %q", meta, got)
		}
		if was != nil && got != meta {
			t.Errorf("%q was touched: %q", meta, got)
		}
		if len(got) > len(meta)+2048 {
			t.Errorf("%d bytes were added", len(got)-len(meta))
		}
	})
}

func BenchmarkContext(b *testing.B) {
	r := httptest.NewRequest("GET", "/", nil)
	for name, v := range map[string]string{"X-Request-Id": "8e03978e-40d5-43e8-bc93-6894a57f9324", "Accept-Language": "de-AT,de;q=0.9", "traceparent": parent, "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"} {
		r.Header.Set(name, v)
	}
	o := nethttp.Options{User: says("7"), Tenant: says("acme")}
	b.Run("middleware", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			nethttp.Context(r, o)
		}
	})
	b.Run("annotate", func(b *testing.B) {
		ctx, e := nethttp.Context(r, o), envelope(`{"a":1}`)
		b.ReportAllocs()
		for b.Loop() {
			nethttp.Annotate(ctx, e)
		}
	})
}

// member is a text in meta, or empty.
func member(t *testing.T, meta, name string) string {
	t.Helper()
	if meta == "" {
		return ""
	}
	var m map[string]string
	if err := json.Unmarshal([]byte(meta), &m); err != nil {
		t.Fatalf("%s: %v", meta, err)
	}
	return m[name]
}
