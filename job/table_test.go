package job

import (
	"reflect"
	"testing"
	"time"
)

// TestColumnsRefuseWhatTheyNeverHeld: a column whose bytes cannot be what was
// written is told by its Set, whichever it is.
func TestColumnsRefuseWhatTheyNeverHeld(t *testing.T) {
	t.Parallel()
	for i := range rows {
		m := &rows[i]
		if m.column == "" {
			continue
		}
		damaged := map[string]any{"a fraction": 1.5, "a text that is no UTF-8": "\xff"}
		if m.size != nil {
			damaged["a text that is no JSON"] = "{"
		}
		for what, v := range damaged {
			if m.set(&Job{}, v) {
				t.Errorf("%s takes %s", m.column, what)
			}
		}
	}
}

// TestTimesOfAnEnvelopeAreRoundedAndBounded: each length and each instant, also one
// that is new.
func TestTimesOfAnEnvelopeAreRoundedAndBounded(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[Envelope]().NumField() {
		var odd, far, want any
		switch reflect.TypeFor[Envelope]().Field(i).Type {
		case reflect.TypeFor[time.Duration]():
			odd, want, far = time.Duration(1), time.Millisecond, MaxDuration+1
		case reflect.TypeFor[time.Time]():
			odd, want, far = time.Unix(1, 1).UTC(), time.Unix(1, 1e6).UTC(), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
		default:
			continue
		}
		var e Envelope
		f := reflect.ValueOf(&e).Elem().Field(i)
		name := reflect.TypeFor[Envelope]().Field(i).Name
		f.Set(reflect.ValueOf(odd))
		if e.wholeMillis(); !reflect.DeepEqual(f.Interface(), want) {
			t.Errorf("%s: %v is rounded to %v, want %v", name, odd, f, want)
		}
		f.Set(reflect.ValueOf(far))
		if err := e.checkBounds(); KindOf(err) != Invalid {
			t.Errorf("%s: %v is taken: %v", name, far, err)
		}
	}
}

// TestEveryMemberAboutWhenIsCompared: SameOptions compares what is timed by hand,
// and a new one must not be left out.
func TestEveryMemberAboutWhenIsCompared(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000).UTC()
	for i := range rows {
		m := &rows[i]
		if !m.timed {
			continue
		}
		plain := Envelope{Type: "email.send", Args: []byte(`[]`)}
		asked := plain
		switch f := reflect.ValueOf(&asked).Elem().FieldByName(m.field); f.Type() {
		case reflect.TypeFor[time.Duration]():
			f.SetInt(int64(time.Hour))
		case reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(now.Add(time.Hour)))
		case reflect.TypeFor[bool]():
			f.SetBool(true)
		default:
			t.Fatalf("%s is timed, and this test knows no value for it", m.field)
		}
		c, err := asked.Check()
		if err != nil {
			t.Fatal(err)
		}
		stored, err := c.Push(now)
		if err != nil {
			t.Fatal(err)
		}
		if !asked.SameOptions(stored) {
			t.Errorf("%s: a job is not what was asked for", m.field)
		}
		if plain.SameOptions(stored) {
			t.Errorf("%s: a job that has it is the same as one without", m.field)
		}
	}
}
