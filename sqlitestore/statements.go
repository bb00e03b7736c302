package sqlitestore

// statements are prepared once, on the writer's connection.
type statements struct {
	begin, commit, rollback, savepoint, release, rollbackTo *stmt
	insertBody, insertState, insertFirst                    *stmt
	rewrite, removeBody, removeState, takeBack              *stmt
	byID, byNumber, strangers                               *stmt
	available, due, nextDue, waiting                        *stmt
	heldKey, pastKey, dedupKey, customID                    *stmt
	putQueue, putMark, putEvents, addSlot                   *stmt
	cronByName, stepCron                                    *stmt
	flowNode, insertFlow, insertNode, insertNodes           *stmt
	saveNode, endFlow                                       *stmt
	limitByKey, putLimit, laneHead, laneNext, opening       *stmt
	tenantJobs, siftSame, siftLower                         *stmt

	plainBody, flowBody, plainState, keyedState sized
}

func (w *writer) prepare() error {
	for _, p := range []struct {
		into **stmt
		sql  string
	}{
		{&w.st.begin, "BEGIN IMMEDIATE"}, {&w.st.commit, "COMMIT"}, {&w.st.rollback, "ROLLBACK"},
		{&w.st.savepoint, "SAVEPOINT one"}, {&w.st.release, "RELEASE one"}, {&w.st.rollbackTo, "ROLLBACK TO one"},
		{&w.st.insertBody, insertBody}, {&w.st.insertState, insertState}, {&w.st.insertFirst, insertFirst},
		{&w.st.rewrite, rewriteBody}, {&w.st.removeBody, deleteBody}, {&w.st.removeState, deleteState}, {&w.st.takeBack, takeBack},
		{&w.st.byID, readJob}, {&w.st.byNumber, readJobNumber}, {&w.st.strangers, strangers},
		{&w.st.heldKey, heldKey}, {&w.st.pastKey, pastKey}, {&w.st.dedupKey, dedupKey}, {&w.st.customID, customID},
		{&w.st.available, nextAvailable}, {&w.st.due, allDue}, {&w.st.nextDue, nextDue}, {&w.st.waiting, allWaiting},
		{&w.st.putQueue, putQueue}, {&w.st.putMark, putMark}, {&w.st.putEvents, putEvents}, {&w.st.addSlot, addSlot},
		{&w.st.cronByName, cronByName}, {&w.st.stepCron, stepCron},
		{&w.st.flowNode, flowNode}, {&w.st.insertFlow, insertFlow}, {&w.st.insertNode, insertNode}, {&w.st.insertNodes, insertMany},
		{&w.st.saveNode, saveNode}, {&w.st.endFlow, endFlow},
		{&w.st.limitByKey, limitByKey}, {&w.st.putLimit, putLimit}, {&w.st.laneHead, laneHead}, {&w.st.laneNext, laneNext}, {&w.st.opening, openingLimits}, {&w.st.tenantJobs, tenantJobs},
		{&w.st.siftSame, siftSame}, {&w.st.siftLower, siftLower},
	} {
		s, err := prepare(w.conn, p.sql)
		if err != nil {
			return err
		}
		*p.into = s
		w.prepared = append(w.prepared, s)
	}
	w.st.flowBody.narrow = &flowBody
	w.st.plainBody.narrow, w.st.plainState.narrow, w.st.keyedState.narrow = &plainBody, &plainState, &keyedState
	for _, many := range [...]*sized{&w.st.plainBody, &w.st.flowBody, &w.st.plainState, &w.st.keyedState} {
		err := many.prepare(w.conn)
		for _, s := range many.of {
			if s != nil {
				w.prepared = append(w.prepared, s)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closeStatements gives the statements back before their connection closes.
func (w *writer) closeStatements() {
	w.closeUpdates()
	for _, s := range w.prepared {
		_ = s.s.Close() // the connection closes next
	}
}
