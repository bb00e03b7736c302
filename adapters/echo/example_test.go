package echo_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	jobsecho "github.com/outrider-jobs/outrider/adapters/echo"
	"github.com/outrider-jobs/outrider/job"
)

// A job is told which request it comes from, and for whom it is.
func ExampleMiddleware() {
	shop := echo.New()
	shop.Use(
		signIn, // the program's own: it finds out who asks
		jobsecho.Middleware(jobsecho.Options{User: func(c echo.Context) string {
			id, _ := c.Get("user").(string)
			return id
		}}),
	)
	shop.POST("/orders", func(c echo.Context) error {
		e := jobsecho.Annotate(c.Request().Context(), job.Envelope{
			Type: "email.send",
			Args: json.RawMessage(`["ada@example.com"]`),
		})
		// … outbox.Add(c.Request().Context(), tx, e) …
		fmt.Println(string(e.Meta))
		return c.NoContent(http.StatusCreated)
	})

	r := httptest.NewRequest("POST", "/orders", nil)
	r.Header.Set("X-Request-Id", "req_42")
	shop.ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// {"request_id":"req_42","user_id":"7"}
}

func signIn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set("user", "7")
		return next(c)
	}
}
