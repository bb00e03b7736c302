package sqlitestore

// noSurprise is nothing here: links need rights that few have.
const noSurprise = 0
