package wire

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// Acks are the ACKs of one request (contract §3.9). One that cannot be read is refused
// alone: it is an error at its place, and the others are asked for.
type Acks struct {
	Many bool             // they stand in acks, and are answered as many
	One  job.AckRequest   // the only one, where they do not
	Good []job.AckRequest // of many those that could be read, in their order

	refused map[int]refusal // by their place
	n       int
}

// refusal is an ACK that cannot be read, and the job that it names, if it does.
type refusal struct {
	id  job.ID
	err error
}

// Len is how many they are, of many.
func (a *Acks) Len() int { return a.n }

// DecodeAcks reads the body of an ACK of one or of many (contract §3.9). The results
// point into raw.
func DecodeAcks(raw []byte) (a Acks, err error) {
	var list json.RawMessage
	err = object(raw, "result", func(member string, v json.RawMessage) error {
		if member == "acks" {
			list = v
			return nil
		}
		return ackMember(&a.One, member, v)
	})
	a.Many = list != nil
	switch {
	case err != nil:
	case !a.Many:
		err = named(a.One.Claim)
	case a.One.Claim != (job.Claim{}) || a.One.Result != nil:
		err = refuse("acks", "must not stand beside the members of a single ACK: put each job, with its lease_token, worker_id and result, into acks")
	default:
		if err = a.read(list); err == nil && a.n == 0 {
			err = refuse("acks", "must not be empty")
		}
	}
	return a, err
}

// ackMember reads a member of an ACK. A null that is no result counts as not given.
func ackMember(a *job.AckRequest, member string, v json.RawMessage) error {
	if member == "result" {
		a.Result = v
		return nil
	}
	if isNull(v) {
		return nil
	}
	_, err := claim(&a.Claim, member, v)
	return err
}

// read reads the array of ACKs. More than job.MaxAcks are TooLarge, whatever they are.
func (a *Acks) read(list json.RawMessage) error {
	if list[0] != '[' {
		return refuse("acks", "must be an array"+got(list))
	}
	var one job.AckRequest
	member := func(member string, v json.RawMessage) error { return ackMember(&one, member, v) }
	return job.Elements(list, func(i int, v json.RawMessage) (err error) {
		if i == job.MaxAcks {
			return job.Errorf(job.TooLarge, "acks has more than %d elements; send several requests", job.MaxAcks).
				With(map[string]any{"max_ack_batch_size": job.MaxAcks})
		}
		a.n++
		one = job.AckRequest{}
		switch {
		case v[0] != '{':
			err = refuse("acks", "must have only objects in it, each with a job_id"+got(v))
		case len(v) > MaxEndBytes:
			err = job.Errorf(job.TooLarge, "an ACK of %d bytes is too large, at most %d are taken", len(v), MaxEndBytes).
				With(map[string]any{"size": len(v), "limit": MaxEndBytes})
		default:
			if err = job.Members(v, member); err == nil {
				err = named(one.Claim)
			}
		}
		if err == nil {
			a.Good = append(a.Good, one)
			return nil
		}
		if a.refused == nil {
			a.refused = map[int]refusal{}
		}
		if !job.ValidID(string(one.ID)) {
			one.ID = ""
		}
		a.refused[i] = refusal{one.ID, err}
		return nil
	})
}

// DecodeNext reads the body of an ACK and FETCH in one (contract §3.27): that of a FETCH,
// and acks, which may be missing.
func DecodeNext(raw []byte) (a Acks, f job.FetchRequest, err error) {
	a.Many = true
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if member == "acks" {
			return a.read(v)
		}
		return fetchMember(&f, member, v)
	})
	f, err = asked(f, err)
	return a, f, err
}

// AppendAcked appends the answer to many ACKs (contract §3.9). acked are the verdicts on
// those that could be read.
func AppendAcked(dst []byte, a Acks, acked []job.Acked, requestID string) []byte {
	b := rawjson.Object(dst)
	a.results(&b, acked, requestID)
	return b.Close()
}

// results appends the verdicts. Each is what the ACK would be answered alone, with its
// status, and without the job: whoever sent many need not get all of them back.
func (a *Acks) results(b *rawjson.Writer, acked []job.Acked, requestID string) {
	b.Array("results")
	good := 0
	for i := range a.n {
		b.Begin()
		if r, bad := a.refused[i]; bad {
			refusedAck(b, r, requestID)
		} else if id, v := a.Good[good].ID, acked[good]; v.Err != nil {
			refusedAck(b, refusal{id, v.Err}, requestID)
			good++
		} else {
			b.Bool("ok", true).Int("status", http.StatusOK)
			b.Str("id", string(id)).Str("job_id", string(id)).Str("state", string(job.Completed)).Time("completed_at", v.FinishedAt)
			good++
		}
		b.End()
	}
	b.EndArray()
}

func refusedAck(b *rawjson.Writer, r refusal, requestID string) {
	status, body := EncodeError(r.err, requestID)
	b.Bool("ok", false).Int("status", int64(status))
	b.Optional("id", string(r.id)).Optional("job_id", string(r.id)).Splice(body)
}

// AppendNext appends the answer to an ACK and FETCH in one (contract §3.27). err is why
// there are no jobs, where the FETCH failed behind its ACKs.
func AppendNext(dst []byte, a Acks, acked []job.Acked, jobs []*job.Job, err error, requestID string, p Profile) []byte {
	b := rawjson.Object(dst)
	a.results(&b, acked, requestID)
	if err != nil {
		status, body := EncodeError(err, requestID)
		b.Int("status", int64(status)).Splice(body)
	}
	fetched(&b, jobs, p)
	return b.Close()
}

// AcksBody is the body of many ACKs (contract §3.9). Their results must be JSON.
func AcksBody(acks []job.AckRequest) []byte {
	b := rawjson.Object(make([]byte, 0, 16+160*len(acks)))
	acksBody(&b, acks)
	return b.Close()
}

// NextBody is the body of an ACK and FETCH in one (contract §3.27).
func NextBody(acks []job.AckRequest, f job.FetchRequest) []byte {
	b := rawjson.Object(make([]byte, 0, 256+160*len(acks)))
	fetchBody(&b, f)
	acksBody(&b, acks)
	return b.Close()
}

func acksBody(b *rawjson.Writer, acks []job.AckRequest) {
	b.Array("acks")
	for _, a := range acks {
		b.Begin()
		holder(b, a.Claim)
		b.Raw("result", a.Result).End()
	}
	b.EndArray()
}

// ackResult is one of the results of an answer.
type ackResult struct {
	OK     bool      `json:"ok"`
	Status int       `json:"status"`
	At     time.Time `json:"completed_at"`
	errorBody
}

func verdicts(vs []ackResult, want int) ([]job.Acked, error) {
	if len(vs) != want {
		return nil, unread(job.Errorf(job.Malformed, "it answers for %d ACKs of %d", len(vs), want))
	}
	acked := make([]job.Acked, len(vs))
	for i, v := range vs {
		if v.OK {
			acked[i].FinishedAt = v.At
		} else {
			acked[i].Err = errorOf(v.Status, v.errorBody)
		}
	}
	return acked, nil
}

// ReadAcked reads the answer to so many ACKs.
func ReadAcked(body []byte, want int) ([]job.Acked, error) {
	var r struct {
		Results []ackResult `json:"results"`
	}
	if err := read(body, &r); err != nil {
		return nil, err
	}
	return verdicts(r.Results, want)
}

// NextReply is the answer to an ACK and FETCH in one: Err is about the FETCH alone.
type NextReply struct {
	Acked []job.Acked
	Jobs  []*job.Job
	Err   error
}

// ReadNext reads the answer to a FETCH with so many ACKs.
func ReadNext(body []byte, want int) (n NextReply, err error) {
	var r struct {
		Results []ackResult       `json:"results"`
		Jobs    []json.RawMessage `json:"jobs"`
		Status  int               `json:"status"`
		errorBody
	}
	if err := read(body, &r); err != nil {
		return n, err
	}
	if n.Acked, err = verdicts(r.Results, want); err != nil {
		return n, err
	}
	if r.Status != 0 {
		n.Err = errorOf(r.Status, r.errorBody)
		return n, nil
	}
	n.Jobs, n.Err = parseAll(r.Jobs)
	return n, nil
}
