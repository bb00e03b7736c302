package wire

import (
	"encoding/json"
	"time"

	"github.com/outrider-jobs/outrider/internal/rawjson"
	"github.com/outrider-jobs/outrider/job"
)

// DecodeCheckpoint reads a checkpoint to be saved (contract §3.17).
func DecodeCheckpoint(raw []byte, id job.ID) (c job.Claim, state, metadata json.RawMessage, err error) {
	c.ID = id
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if used, err := claimBeside(&c, member, v); used {
			return err
		}
		switch member {
		case "state":
			state = v
		case "metadata":
			metadata = v
		}
		return nil
	})
	return c, state, metadata, err
}

// DecodeStep reads a checkpoint as the public SDKs send it: with the index of a step,
// which is kept with the metadata.
func DecodeStep(raw []byte, id job.ID) (c job.Claim, state, metadata json.RawMessage, err error) {
	c.ID = id
	var step json.RawMessage
	err = object(raw, "", func(member string, v json.RawMessage) error {
		if used, err := claimBeside(&c, member, v); used {
			return err
		}
		switch member {
		case "state":
			state = v
		case "step_index":
			_, err := natural(v, member, int64(1)<<53)
			step = v
			return err
		case "metadata":
			if v[0] != '{' {
				return refuse(member, "must be a JSON object"+got(v))
			}
			metadata = v
		}
		return nil
	})
	if err != nil || step == nil {
		return c, state, metadata, err
	}
	b := rawjson.Object(make([]byte, 0, len(metadata)+32))
	b.Raw("step_index", step)
	if metadata != nil {
		err = job.Members(metadata, func(member string, v json.RawMessage) error {
			if member != "step_index" {
				b.Quoted(member, v)
			}
			return nil
		})
	}
	return c, state, b.Close(), err
}

// CheckpointBody is the body with which a checkpoint is saved.
func CheckpointBody(c job.Claim, state, metadata json.RawMessage) []byte {
	b := claimed(c)
	b.Raw("state", state)
	if metadata != nil {
		b.Raw("metadata", metadata)
	}
	return b.Close()
}

// AppendCheckpoint appends a checkpoint.
func AppendCheckpoint(dst []byte, id job.ID, c job.Checkpoint) []byte {
	b := rawjson.Object(dst)
	b.Str("job_id", string(id)).Raw("state", c.State)
	if c.Metadata != nil {
		b.Raw("metadata", c.Metadata)
	}
	b.Int("sequence", int64(c.Sequence)).Time("created_at", c.CreatedAt).Time("updated_at", c.UpdatedAt)
	return b.Close()
}

// AppendResume appends where a job may go on, as the public SDKs read it.
func AppendResume(dst []byte, c *job.Checkpoint) []byte {
	b := rawjson.Object(dst)
	b.Bool("has_checkpoint", c != nil)
	if c == nil {
		return b.Raw("checkpoint", json.RawMessage("null")).Close()
	}
	o := b.Object("checkpoint")
	o.Raw("state", c.State)
	step := rawjson.Member(c.Metadata, "step_index")
	if step == nil {
		step = json.RawMessage("0")
	}
	o.Raw("step_index", step)
	if c.Metadata != nil {
		o.Raw("metadata", c.Metadata)
	}
	o.Int("sequence", int64(c.Sequence)).Time("created_at", c.CreatedAt).End()
	return b.Close()
}

// ReadCheckpoint reads the answer to a checkpoint that was saved.
func ReadCheckpoint(body []byte) (job.Checkpoint, error) {
	var r struct {
		State     json.RawMessage `json:"state"`
		Metadata  json.RawMessage `json:"metadata"`
		Sequence  int             `json:"sequence"`
		CreatedAt time.Time       `json:"created_at"`
		UpdatedAt time.Time       `json:"updated_at"`
	}
	err := read(body, &r)
	return job.Checkpoint{State: r.State, Metadata: r.Metadata, Sequence: r.Sequence, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}, err
}

// AppendCheckpointDeleted appends the answer to a checkpoint that was deleted, if there
// was one.
func AppendCheckpointDeleted(dst []byte, id job.ID, had bool) []byte {
	b := rawjson.Object(dst)
	return b.Str("job_id", string(id)).Bool("deleted", had).Close()
}

// ReadDeleted reads whether something was deleted.
func ReadDeleted(body []byte) (bool, error) {
	return readMember[bool](body, "deleted", "it does not say whether something was deleted")
}

// NoCheckpoint is the NotFound for a job without a checkpoint.
func NoCheckpoint(id job.ID) error {
	return job.Errorf(job.NotFound, "job %s has no checkpoint: nothing was saved, or it was deleted", id).
		With(map[string]any{"resource_type": "checkpoint", "resource_id": string(id)})
}
