// Package cronsched will turn cron expressions and instants into jobs.
//
// It will hold Next, a pure function from an expression and an instant to the
// next instant, and Fire, which claims a tick, inserts its job and moves the
// schedule on in one transaction of the store. github.com/robfig/cron/v3 is used
// for its parser only; what that leaves open (daylight saving time, impossible
// dates, missed ticks) is answered here.
package cronsched
