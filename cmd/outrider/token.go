package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrider-jobs/outrider/internal/tokens"
	"github.com/outrider-jobs/outrider/sidecar/httpapi"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "token",
		Short: "Make the tokens by which a server knows its callers",
		Long: "A server with --token-file asks each caller for a token. The file has one a line: its role or roles, then the\n" +
			"token's hash, or the token itself, or a user of this machine who asks over a Unix socket:\n\n" +
			"  producer         sha256:5e88…                     # the shop\n" +
			"  worker,producer  ort_f2Jx…\n" +
			"  operator         user:deploy\n\n" +
			"producer  enqueues jobs and workflows, reads and cancels them by id\n" +
			"worker    fetches and ends jobs\n" +
			"read-only reads everything\n" +
			"operator  may do everything\n\n" +
			"Several lines may have the same role: add a line, send SIGHUP, give the new token out, remove the old line, send SIGHUP.",
	})
	cmd.AddCommand(a.tokenNewCommand(), a.tokenHashCommand())
	return cmd
}

func (a *app) tokenNewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new ROLE[,ROLE]",
		Short: "Make a token, and the line that a file of tokens has for it",
		Long: "Prints a new token and the line with its hash. With --file the line is added to that file, and only the\n" +
			"token is printed: give it to the client, as OJS_AUTH_TOKEN or in a file of its own. It is kept nowhere.",
	}
	file := cmd.Flags().String("file", "", "file of tokens to add the line to; it is made if it is not there")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		roles, err := rolesIn(cmd, args, "")
		if err != nil {
			return err
		}
		token := tokens.New()
		line, err := tokens.Line(roles, token)
		if err != nil {
			return err
		}
		if *file == "" {
			_, err = fmt.Fprintf(a.stdout, "token: %s\nline:  %s\n", token, line)
			return err
		}
		if err := tokens.Append(*file, line); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.stdout, token)
		return err
	}
	return cmd
}

func (a *app) tokenHashCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hash ROLE[,ROLE]",
		Short: "Read a token from standard input and print the line that a file of tokens has for it",
		RunE: func(cmd *cobra.Command, args []string) error {
			roles, err := rolesIn(cmd, args, "; the token comes on standard input")
			if err != nil {
				return err
			}
			raw, err := io.ReadAll(io.LimitReader(a.stdin, 4<<10))
			if err != nil {
				return err
			}
			token := strings.TrimSpace(string(raw))
			if token == "" {
				return usage("%w", errors.New("there is no token on standard input"))
			}
			line, err := tokens.Line(roles, token)
			if err != nil {
				return usage("%w", err)
			}
			_, err = fmt.Fprintln(a.stdout, line)
			return err
		},
	}
}

// rolesIn are the roles that a command is given, its only word; more says what else it needs.
func rolesIn(cmd *cobra.Command, args []string, more string) (httpapi.Role, error) {
	if len(args) != 1 {
		return 0, usage("%s needs roles: producer, worker, read-only or operator, with commas between them%s", cmd.CommandPath(), more)
	}
	roles, err := httpapi.ParseRoles(args[0])
	if err != nil {
		return 0, usage("%w", err)
	}
	return roles, nil
}
