module github.com/outrider-jobs/outrider

go 1.26.0

require github.com/sosodev/duration v1.4.0
