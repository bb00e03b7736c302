package sqlitestore

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/outrider-jobs/outrider/job"
)

const flowColumns = `id_bytes, kind, name, state, nodes, created_at, finished_at, digest`

// The columns of a node: those that never change, and the others, which a save writes.
const (
	fixedOfNode    = `flow, idx, parent, kind, step, type, callback, first, size, calls, needs, feeds`
	changingOfNode = `job_id, stage, calling, open, done, failed, stopped, calls_lost, wants, fed, started_at, ended_at, ends, results, spec`
	nodeColumns    = fixedOfNode + `, ` + changingOfNode
)

const (
	flowByID   = `SELECT ` + flowColumns + ` FROM workflows WHERE id_bytes = ?`
	flowNodes  = `SELECT ` + nodeColumns + ` FROM workflow_nodes WHERE flow = ? AND idx >= ? ORDER BY idx LIMIT ?`
	flowNode   = `SELECT ` + nodeColumns + ` FROM workflow_nodes WHERE flow = ? AND idx = ?`
	insertFlow = `INSERT OR IGNORE INTO workflows (` + flowColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	endFlow    = `UPDATE workflows SET state = ?, finished_at = ? WHERE id_bytes = ?`

	allFlows   = `SELECT ` + flowColumns + ` FROM workflows WHERE id_bytes < ? ORDER BY id_bytes DESC LIMIT ? OFFSET ?`
	someFlows  = `SELECT ` + flowColumns + ` FROM workflows WHERE state = ? AND id_bytes < ? ORDER BY id_bytes DESC LIMIT ? OFFSET ?`
	countFlows = `SELECT count(*) FROM (SELECT 1 FROM workflows LIMIT 10001)`
	countSome  = `SELECT count(*) FROM (SELECT 1 FROM workflows WHERE state = ? LIMIT 10001)`

	endedFlows      = `SELECT id_bytes, nodes FROM workflows WHERE state = ? AND finished_at < ? ORDER BY finished_at LIMIT 100`
	deleteFlow      = `DELETE FROM workflows WHERE id_bytes = ?`
	deleteFlowNodes = `DELETE FROM workflow_nodes WHERE flow = ?`
)

// nodesTogether is how many nodes are stored in one statement where there are many.
const nodesTogether = 16

var (
	insertNode = insertNodes(1)
	insertMany = insertNodes(nodesTogether)
	saveNode   = `UPDATE workflow_nodes SET ` + strings.ReplaceAll(changingOfNode, ",", " = ?,") + ` = ? WHERE flow = ? AND idx = ?`
	nodeWidth  = strings.Count(nodeColumns, ",") + 1
)

func insertNodes(rows int) string {
	row := "(?" + strings.Repeat(", ?", strings.Count(nodeColumns, ",")) + ")"
	return `INSERT INTO workflow_nodes (` + nodeColumns + ")\nVALUES " + row + strings.Repeat(", "+row, rows-1)
}

// bytesOf is an id as it is stored, NULL for none.
func bytesOf(id job.ID) driver.Value {
	if b, ok := id.Bytes(); ok {
		return b[:]
	}
	return nil
}

// placesAs are numbers as they are stored.
func placesAs(ns []int) driver.Value {
	if len(ns) == 0 {
		return nil
	}
	b, _ := json.Marshal(ns) // numbers always marshal
	return string(b)
}

func placesFrom[V any](r *row[V]) (ns []int) {
	if s := r.str(); s != "" {
		r.bad = json.Unmarshal([]byte(s), &ns) != nil || r.bad
	}
	return ns
}

// nodeArgs appends all columns of a node.
func nodeArgs(args []driver.Value, id driver.Value, n *job.FlowNode) []driver.Value {
	args = append(args, id, int64(n.Index), int64(n.Parent), string(n.Kind), n.Step, text(n.Type), text(n.Callback),
		int64(n.First), int64(n.Size), placesAs(n.Calls), placesAs(n.Needs), placesAs(n.Feeds))
	return changingArgs(args, n)
}

// changingArgs appends those that change.
func changingArgs(args []driver.Value, n *job.FlowNode) []driver.Value {
	calling := int64(0)
	if n.Calling {
		calling = 1
	}
	var ends driver.Value
	if len(n.Ends) > 0 {
		ends = n.Ends
	}
	return append(args, bytesOf(n.JobID), int64(n.Stage), calling, int64(n.Open), int64(n.Done), int64(n.Failed), int64(n.Stopped),
		int64(n.CallsLost), int64(n.Wants), int64(n.Fed), millis(n.StartedAt), millis(n.EndedAt), ends, text(n.Results), text(n.Spec))
}

// nodeFrom reads nodeColumns.
func nodeFrom[V any](values []V) (*job.FlowNode, error) {
	r := &row[V]{v: values}
	n := &job.FlowNode{}
	r.blob()
	n.Index, n.Parent, n.Kind, n.Step = int(r.int()), int(r.int()), job.WorkflowKind(r.str()), r.str()
	n.Type, n.Callback, n.First, n.Size = r.str(), r.str(), int(r.int()), int(r.int())
	n.Calls, n.Needs, n.Feeds = placesFrom(r), placesFrom(r), placesFrom(r)
	if b := r.blob(); len(b) == 16 {
		n.JobID = job.IDOf([16]byte(b))
	}
	n.Stage, n.Calling = job.FlowStage(r.int()), r.int() != 0
	n.Open, n.Done, n.Failed, n.Stopped = int(r.int()), int(r.int()), int(r.int()), int(r.int())
	n.CallsLost, n.Wants, n.Fed = int(r.int()), int(r.int()), int(r.int())
	n.StartedAt, n.EndedAt, n.Ends = r.time(), r.time(), r.blob()
	n.Results, n.Spec = r.raw(), r.raw()
	if r.bad || len(n.Ends) != (n.Size+3)/4 || n.Results != nil && !json.Valid(n.Results) {
		return nil, unreadable("a step of a workflow")
	}
	return n, nil
}

// flowFrom reads flowColumns.
func flowFrom[V any](values []V) (*job.Flow, error) {
	r := &row[V]{v: values}
	f := &job.Flow{ID: r.id(), Kind: job.WorkflowKind(r.str()), Name: r.str(), State: job.WorkflowState(r.str()), Count: int(r.int()),
		CreatedAt: r.time(), FinishedAt: r.time(), Digest: r.str()}
	if r.bad {
		return nil, unreadable("workflow %s", f.ID)
	}
	return f, nil
}

func (r reader) flows(query string, args ...any) (fs []*job.Flow, err error) {
	for values, err := range r.rows(query, args...) {
		if err != nil {
			return nil, translate("read workflows", err)
		}
		f, err := flowFrom(values)
		if err != nil {
			return nil, err
		}
		fs = append(fs, f)
	}
	return fs, nil
}

// Flow reads a workflow without its nodes.
func (r reader) Flow(id job.ID) (*job.Flow, error) {
	fs, err := r.flows(flowByID, bytesOf(id))
	return first(fs, err, func() error { return job.NoWorkflow(id) })
}

// FlowNodes reads nodes in their order.
func (r reader) FlowNodes(id job.ID, from, n int) ([]*job.FlowNode, error) {
	nodes := make([]*job.FlowNode, 0, min(n, job.MaxWorkflowSteps+1))
	for values, err := range r.rows(flowNodes, bytesOf(id), from, n) {
		if err != nil {
			return nil, translate("read the steps of a workflow", err)
		}
		n, err := nodeFrom(values)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// behindAll is behind every id.
var behindAll = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Flows reads a page of a list.
func (r reader) Flows(f job.WorkflowFilter) (page []*job.Flow, total int64, next string, err error) {
	var after any = behindAll
	if f.Cursor != "" {
		if after = bytesOf(job.ID(f.Cursor)); after == nil {
			return nil, 0, "", job.Errorf(job.Invalid, "cursor must be the next_cursor of the page before, got %.80q", f.Cursor).With(map[string]any{"field": "cursor"})
		}
	}
	query, count, args := allFlows, countFlows, []any{}
	if f.State != "" {
		query, count, args = someFlows, countSome, []any{string(f.State)}
	}
	if err := r.each(count, func(v *row[any]) { total = v.int() }, args...); err != nil {
		return nil, 0, "", translate("count workflows", err)
	}
	if page, err = r.flows(query, append(args, after, f.Limit+1, f.Offset)...); err != nil {
		return nil, 0, "", err
	}
	if len(page) > f.Limit {
		page = page[:f.Limit]
		next = string(page[f.Limit-1].ID)
	}
	for _, w := range page {
		if w.Nodes, err = r.FlowNodes(w.ID, 0, 1); err != nil {
			return nil, 0, "", err
		}
	}
	return page, total, next, nil
}

// nodeKey is one node of one workflow.
type nodeKey struct {
	flow job.ID
	i    int
}

// nodes are what is remembered of them: by a call and by a group what they have saved, by
// the writer what is stored. They are never changed; who wants to change one takes a clone.
type nodes map[nodeKey]*job.FlowNode

// maxNodes is how many the writer remembers.
const maxNodes = 4096

// node is a node as this transaction has it, which is not to be changed; nil for none.
func (t *tx) node(k nodeKey) (*job.FlowNode, error) {
	for _, from := range [...]nodes{t.call.nodes, t.group.nodes, t.w.nodes} {
		if n := from[k]; n != nil {
			return n, nil
		}
	}
	var n *job.FlowNode
	err := t.w.st.flowNode.each(func(v []driver.Value) (err error) {
		n, err = nodeFrom(v)
		return err
	}, bytesOf(k.flow), int64(k.i))
	if errors.Is(err, errDamaged) { // no statement has failed
		t.w.noteDamage(err)
		return nil, err
	}
	if err != nil {
		return nil, t.fail("read a step of a workflow", err)
	}
	if n != nil {
		t.w.remember(k, n)
	}
	return n, nil
}

// remember keeps a node that is as it is stored.
func (w *writer) remember(k nodeKey, n *job.FlowNode) {
	if len(w.nodes) >= maxNodes || w.nodes == nil {
		w.nodes = nodes{}
	}
	w.nodes[k] = n
}

// FlowNode reads a node.
func (t *tx) FlowNode(id job.ID, i int) (*job.FlowNode, error) {
	n, err := t.node(nodeKey{id, i})
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, job.NoWorkflow(id)
	}
	return n.Clone(), nil
}

// SaveFlowNode saves a node once, when its group is committed.
func (t *tx) SaveFlowNode(id job.ID, n *job.FlowNode) error {
	if t.call.nodes == nil {
		t.call.nodes = nodes{}
	}
	t.call.nodes[nodeKey{id, n.Index}] = n.Clone()
	return nil
}

// FlowNodes reads nodes as this transaction has left them.
func (t *tx) FlowNodes(id job.ID, from, n int) ([]*job.FlowNode, error) {
	ns, err := t.reader.FlowNodes(id, from, n)
	if err != nil {
		return nil, err
	}
	for i := range ns {
		k := nodeKey{id, ns[i].Index}
		if now := t.call.nodes[k]; now != nil {
			ns[i] = now.Clone()
		} else if now := t.group.nodes[k]; now != nil {
			ns[i] = now.Clone()
		}
	}
	return ns, nil
}

// Flows reads a page of a list as this transaction has left it.
func (t *tx) Flows(f job.WorkflowFilter) (page []*job.Flow, total int64, next string, err error) {
	if page, total, next, err = t.reader.Flows(f); err != nil {
		return nil, 0, "", err
	}
	for _, w := range page {
		if w.Nodes, err = t.FlowNodes(w.ID, 0, 1); err != nil {
			return nil, 0, "", err
		}
	}
	return page, total, next, nil
}

// InsertFlow stores a new workflow.
func (t *tx) InsertFlow(f *job.Flow) error {
	id := bytesOf(f.ID)
	if id == nil {
		return job.Errorf(job.Internal, "the id of a workflow is no UUID in lower case")
	}
	n, err := t.do(t.w.st.insertFlow, id, string(f.Kind), f.Name, string(f.State), int64(f.Count), f.CreatedAt.UnixMilli(), millis(f.FinishedAt), text(f.Digest))
	if err != nil {
		return t.fail("store a workflow", err)
	}
	if n == 0 {
		return job.Errorf(job.Duplicate, "workflow %s exists already", f.ID)
	}
	t.wrote = true
	for left := f.Nodes; len(left) > 0; {
		s, some := t.w.st.insertNode, 1
		if len(left) >= nodesTogether {
			s, some = t.w.st.insertNodes, nodesTogether
		}
		args := make([]driver.Value, 0, some*nodeWidth)
		for _, n := range left[:some] {
			args = nodeArgs(args, id, n)
		}
		if _, err := t.do(s, args...); err != nil {
			return t.fail("store the steps of a workflow", err)
		}
		left = left[some:]
	}
	return nil
}

// EndFlow notes the end of a workflow.
func (t *tx) EndFlow(id job.ID, to job.WorkflowState, at time.Time) error {
	t.wrote = true
	_, err := t.do(t.w.st.endFlow, string(to), millis(at), bytesOf(id))
	return t.fail("end a workflow", err)
}

// PruneFlows removes workflows that ended long ago.
func (t *tx) PruneFlows(s job.WorkflowState, before time.Time, n int) (more bool, err error) {
	type old struct {
		id    job.ID
		nodes int64
	}
	var olds []old
	if err := t.reader.each(endedFlows, func(v *row[any]) { olds = append(olds, old{v.id(), v.int()}) }, string(s), before.UnixMilli()); err != nil {
		return false, t.fail("find old workflows", err)
	}
	sum := int64(0)
	for i, o := range olds {
		if sum += o.nodes; i > 0 && sum > int64(n) {
			return true, nil
		}
		t.wrote = true
		for _, query := range [...]string{deleteFlow, deleteFlowNodes} {
			if _, err := t.doCold(query, bytesOf(o.id)); err != nil {
				return false, t.fail("remove a workflow", err)
			}
		}
		t.call.gone = append(t.call.gone, o.id)
	}
	return len(olds) == 100, nil
}

// saveNodes writes the nodes that a group has changed.
func (t *tx) saveNodes() error {
	for k, n := range t.group.nodes {
		t.args = append(changingArgs(t.args[:0], n), bytesOf(k.flow), int64(k.i))
		if _, err := t.do(t.w.st.saveNode, t.args...); err != nil {
			return err
		}
		if n.Kind == job.KindJob || n.Spent() {
			delete(t.w.nodes, k)
		} else {
			t.w.remember(k, n)
		}
	}
	for _, id := range t.group.gone {
		for k := range t.w.nodes {
			if k.flow == id {
				delete(t.w.nodes, k)
			}
		}
	}
	return nil
}

// clear forgets all. A map stays as large as it once was: one that was large is not used
// again.
func (m *nodes) clear() {
	if len(*m) > fewJobs {
		*m = nil
		return
	}
	clear(*m)
}
