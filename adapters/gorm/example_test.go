package gorm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	puresqlite "github.com/glebarez/sqlite"
	"gorm.io/gorm"

	jobsgorm "github.com/outrider-jobs/outrider/adapters/gorm"
	"github.com/outrider-jobs/outrider/adapters/sqlite"
	"github.com/outrider-jobs/outrider/job"
	"github.com/outrider-jobs/outrider/outbox"
)

// An order and the mail about it, or neither.
func ExampleAdd() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := gorm.Open(puresqlite.Open(filepath.Join(dir, "shop.db")), &gorm.Config{})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := prepare(ctx, db)
	if err != nil {
		log.Fatal(err)
	}

	type Sale struct {
		ID    int64
		Email string
	}
	if err := db.AutoMigrate(&Sale{}); err != nil {
		log.Fatal(err)
	}
	sell := func(email string, stock int) error {
		return db.Transaction(func(tx *gorm.DB) error {
			if err := tx.Create(&Sale{Email: email}).Error; err != nil {
				return err
			}
			args, _ := json.Marshal([]string{email}) // a text never fails
			if _, err := jobsgorm.Add(ctx, jobs, tx, job.Envelope{Type: "email.send", Args: args}); err != nil {
				return err
			}
			if stock == 0 {
				return errors.New("sold out")
			}
			return nil
		})
	}

	fmt.Println(sell("ada@example.com", 1))
	fmt.Println(sell("grace@example.com", 0))
	var sales, rows int64
	db.Model(&Sale{}).Count(&sales)
	db.Table("ojs_outbox").Count(&rows)
	fmt.Println(sales, "sale and", rows, "job")
	// Output:
	// <nil>
	// sold out
	// 1 sale and 1 job
}

// prepare makes the outbox where it is missing, as outrider outbox init does.
func prepare(ctx context.Context, db *gorm.DB) (*outbox.Outbox, error) {
	dialect, err := sqlite.Dialect("") // ojs_outbox
	if err != nil {
		return nil, err
	}
	std, err := db.DB()
	if err != nil {
		return nil, err
	}
	if err := outbox.Init(ctx, std, dialect); err != nil {
		return nil, err
	}
	return outbox.New(dialect), nil
}
