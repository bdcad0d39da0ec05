// Program controlplane is several programs in one file: its first argument picks which.
//
//	controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kubectl|kwok [flags]
//
// One binary instead of seven, because they share nearly all of their code: it is a third of their size and is
// linked once. Versions are those of go.mod; scripts/build-controlplane.sh stamps Kubernetes' into the binary,
// without which kubectl and KWOK refuse to talk to the API server.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok does what KWOK's own main does: its log and config flags are read before the command is made, because
// the command's defaults come from the configuration.
func runKwok() int {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, logger := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("reading the configuration", "err", err)
		return 1
	}
	command := kwok.NewCommand(ctx)
	command.Version = "" // Its --version would collide with Kubernetes' own flag of that name.
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("exit", "err", err)
		return 1
	}
	return 0
}

func main() {
	programs := map[string]func() int{
		"etcd":           func() int { etcdmain.Main(os.Args); return 0 },
		"kube-apiserver": func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int {
			return cli.Run(controllermanager.NewControllerManagerCommand())
		},
		"kube-scheduler": func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kubelet":        func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
		"kubectl": func() int {
			if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
				kubectlutil.CheckErr(err) // Prints and exits as kubectl does.
			}
			return 0
		},
		"kwok": runKwok,
	}
	// A link named like a program is that program, so that `kubectl` can be put on a PATH.
	if program, found := programs[filepath.Base(os.Args[0])]; found {
		os.Exit(program())
	}
	if len(os.Args) > 1 {
		if program, found := programs[os.Args[1]]; found {
			os.Args = append([]string{os.Args[1]}, os.Args[2:]...)
			os.Exit(program())
		}
	}
	fmt.Fprintln(os.Stderr,
		"usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kubectl|kwok [flags]")
	os.Exit(2)
}
