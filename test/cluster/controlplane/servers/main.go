// Program servers is the API server and the controller manager of an earlier Kubernetes: its first argument picks
// which. The tests on older versions take these two from it (scripts/build-controlplane.sh --servers), and all else
// from controlplane. There is a file of modules for each version: 1.35.mod and so on.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	programs := map[string]func() int{
		"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int {
			return cli.Run(controllermanager.NewControllerManagerCommand())
		},
	}
	if len(os.Args) > 1 {
		if program, found := programs[os.Args[1]]; found {
			os.Args = os.Args[1:]
			os.Exit(program())
		}
	}
	fmt.Fprintln(os.Stderr, "usage: servers kube-apiserver|kube-controller-manager [flags]")
	os.Exit(2)
}
