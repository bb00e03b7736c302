// Package testdb gives a test a database of its own on the servers that
// OUTRIDER_TEST_POSTGRES and OUTRIDER_TEST_MYSQL name, or on those of this
// machine, and drops it behind the test. Without a server the test is skipped. It also
// has the forms of DSN and the passwords with which tests look for leaks.
//
// Only tests import it. It knows nothing of outboxes, and must never decide what
// stands in a database.
package testdb
