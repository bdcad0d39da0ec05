// Program argocd is the part of Argo CD that syncs, of its own code: argocd application-controller, argocd repo-server (with their
// flags), and argocd redis ADDRESS, which keeps nothing.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func run(arguments []string) error {
	switch {
	case len(arguments) > 1 && arguments[1] == "application-controller":
		os.Args = arguments[1:]
		return controller.NewCommand().Execute()
	case len(arguments) > 1 && arguments[1] == "repo-server":
		os.Args = arguments[1:]
		return reposerver.NewCommand().Execute()
	case len(arguments) == 3 && arguments[1] == "redis":
		if err := miniredis.NewMiniRedis().StartAddr(arguments[2]); err != nil {
			return err
		}
		select {}
	}
	return fmt.Errorf("usage: argocd application-controller|repo-server [flags], or argocd redis ADDRESS")
}

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}
