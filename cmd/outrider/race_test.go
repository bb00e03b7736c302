//go:build race

package main

// raced: everything takes ten times as long, so the long tests are shorter.
const raced = true
