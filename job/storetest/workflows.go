package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

// newFlow is a graph with a nested group, cut into nodes that differ in all of their members.
func newFlow(t *testing.T) *job.Flow {
	t.Helper()
	e := job.Envelope{Type: "a.b", Args: []byte(`[1e2]`)}
	spec := job.Graph("näme", job.Do("a", e), job.Inside("b", job.Group("", job.Do("x", e), job.Do("y", e))).After("a"), job.Do("c", e).After("b", "a")).On(job.OnComplete, e)
	f, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	f.ID, f.State, f.CreatedAt, f.Digest = New(t, "q", nil).ID, job.WorkflowRunning, Now, "d"
	if err := f.Checks(func(n *job.FlowNode, c *job.Checked) error {
		n.JobID = New(t, "q", nil).ID
		return c.SetID(n.JobID)
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.Freeze(); err != nil {
		t.Fatal(err)
	}
	return f
}

// changed gives another value to all of a node that may change.
func changed(n *job.FlowNode) {
	n.Stage, n.Calling, n.Open, n.Done, n.Failed, n.Stopped, n.CallsLost, n.Wants, n.Fed = job.FlowReleased, true, 11, 12, 13, 14, 15, 16, 17
	n.StartedAt, n.EndedAt, n.Results, n.Spec, n.JobID = Now, Now.Add(time.Second), []byte(`[1, null]`), nil, ""
	for i := range n.Ends {
		n.Ends[i] = 0x1b
	}
}

// nodesOf are nodes without what the law keeps in memory.
func nodesOf(t *testing.T, tx job.WorkflowReader, id job.ID) (text []string) {
	t.Helper()
	nodes, err := tx.FlowNodes(id, 0, 100)
	if err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		text = append(text, nodeText(n))
	}
	return text
}

// nodeText is all members of a node that a store keeps.
func nodeText(n *job.FlowNode) string {
	return fmt.Sprintln(n.Index, n.Parent, n.Kind, n.Step, n.Type, n.Callback, n.First, n.Size, n.Calls, n.Needs, n.Feeds, n.JobID, n.Stage, n.Calling, n.Open, n.Done,
		n.Failed, n.Stopped, n.CallsLost, n.Wants, n.Fed, n.Ends, n.StartedAt.UnixMilli(), n.EndedAt.UnixMilli(), string(n.Results), string(n.Spec))
}

func texts(ns []*job.FlowNode) (text []string) {
	for _, n := range ns {
		text = append(text, nodeText(n))
	}
	return text
}

// flowsRoundTrip: a workflow and its nodes come back as they were stored and changed.
func flowsRoundTrip(t *testing.T, s job.Store) {
	f := newFlow(t)
	update(t, s, func(tx job.Tx) error { return tx.InsertFlow(f.Copy()) })
	if err := s.Update(t.Context(), func(tx job.Tx) error { return tx.InsertFlow(f.Copy()) }); job.KindOf(err) != job.Duplicate {
		t.Errorf("a second one: %v", err)
	}
	view(t, s, func(tx job.ReadTx) error {
		got, err := tx.Flow(f.ID)
		want := *f
		want.Nodes = nil
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if got, want := nodesOf(t, tx, f.ID), texts(f.Nodes); !reflect.DeepEqual(got, want) {
			t.Errorf("got\n%v\nwant\n%v", got, want)
		}
		if some, err := tx.FlowNodes(f.ID, 2, 2); err != nil || len(some) != 2 || some[0].Index != 2 {
			t.Errorf("some: %+v, %v", some, err)
		}
		_, err = tx.Flow("01980000-0000-7000-8000-000000000009")
		if job.KindOf(err) != job.NotFound {
			t.Errorf("another: %v", err)
		}
		return nil
	})
	for _, n := range f.Nodes {
		changed(n)
	}
	update(t, s, func(tx job.Tx) error {
		for _, n := range f.Nodes {
			own, err := tx.FlowNode(f.ID, n.Index)
			if err != nil {
				return err
			}
			changed(own)
			if err := tx.SaveFlowNode(f.ID, own); err != nil {
				return err
			}
			own.Done = -1 // it is the caller's again
		}
		if got, want := nodesOf(t, tx, f.ID), texts(f.Nodes); !reflect.DeepEqual(got, want) {
			t.Errorf("in its transaction: got\n%v\nwant\n%v", got, want)
		}
		return tx.EndFlow(f.ID, job.WorkflowFailed, Now.Add(time.Minute))
	})
	view(t, s, func(tx job.ReadTx) error {
		if got, want := nodesOf(t, tx, f.ID), texts(f.Nodes); !reflect.DeepEqual(got, want) {
			t.Errorf("changed: got\n%v\nwant\n%v", got, want)
		}
		got, err := tx.Flow(f.ID)
		if err != nil || got.State != job.WorkflowFailed || !got.FinishedAt.Equal(Now.Add(time.Minute)) {
			t.Errorf("ended: %+v, %v", got, err)
		}
		return nil
	})
}

// flowUndone: what a call that fails has saved of a node is gone, whoever shares its commit.
func flowUndone(t *testing.T, s job.Store) {
	f := newFlow(t)
	update(t, s, func(tx job.Tx) error { return tx.InsertFlow(f.Copy()) })
	no := errors.New("no")
	const many = 40
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			err := s.Update(t.Context(), func(tx job.Tx) error {
				n, err := tx.FlowNode(f.ID, 0)
				if err != nil {
					return err
				}
				n.Done++
				if err := tx.SaveFlowNode(f.ID, n); err != nil {
					return err
				}
				if i%2 == 0 {
					return nil
				}
				if i%4 == 1 { // and has written rows
					if err := tx.InsertJob(New(t, "q", nil)); err != nil {
						return err
					}
				}
				return no
			})
			if (err == nil) != (i%2 == 0) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	all.Wait()
	view(t, s, func(tx job.ReadTx) error {
		ns, err := tx.FlowNodes(f.ID, 0, 1)
		if err != nil || len(ns) != 1 || ns[0].Done != many/2 {
			t.Errorf("got %+v, %v, want %d", ns, err, many/2)
		}
		return nil
	})
}

// flowsPruned: workflows go by state and age, the oldest end first, as many as may go at once.
func flowsPruned(t *testing.T, s job.Store) {
	var ids []job.ID
	for i := range 4 {
		f := newFlow(t)
		ids = append(ids, f.ID)
		update(t, s, func(tx job.Tx) error {
			if err := tx.InsertFlow(f.Copy()); err != nil || i == 3 {
				return err
			}
			return tx.EndFlow(f.ID, job.WorkflowCompleted, Now.Add(time.Duration(i)*time.Minute))
		})
	}
	left := func() (there []int) {
		view(t, s, func(tx job.ReadTx) error {
			for i, id := range ids {
				_, err := tx.Flow(id)
				nodes := len(nodesOf(t, tx, id))
				if (err == nil) != (nodes > 0) {
					t.Errorf("workflow %d has %d nodes: %v", i, nodes, err)
				}
				if err == nil {
					there = append(there, i)
				}
			}
			return nil
		})
		return there
	}
	prune := func(state job.WorkflowState, before time.Time) (more bool) {
		update(t, s, func(tx job.Tx) (err error) {
			more, err = tx.PruneFlows(state, before, 1)
			return err
		})
		return more
	}
	if more := prune(job.WorkflowFailed, Now.Add(time.Hour)); more || len(left()) != 4 {
		t.Errorf("another state: %v", left())
	}
	if more := prune(job.WorkflowCompleted, Now.Add(2*time.Minute)); !more || !reflect.DeepEqual(left(), []int{1, 2, 3}) {
		t.Errorf("the first: %t, %v", more, left())
	}
	if more := prune(job.WorkflowCompleted, Now.Add(2*time.Minute)); more || !reflect.DeepEqual(left(), []int{2, 3}) {
		t.Errorf("the second: %t, %v", more, left())
	}
}
