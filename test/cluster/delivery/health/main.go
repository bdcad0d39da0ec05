// Program health says what GitOps tools make of objects, as these tools compute it:
//
//	health ARGOCD-CM.yaml FLUX-KUSTOMIZATIONS.yaml <objects.json
//
// kstatus and Flux's expressions are Flux's own libraries. Argo CD's cannot be had as a module, so lua.go runs its
// scripts as Argo CD does, with the same interpreter. For each object of the List a line of JSON is written.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

type verdict struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// kstatus, and Flux with healthCheckExprs: Current, InProgress, Failed, Terminating, Unknown.
	Kstatus string `json:"kstatus"`
	Flux    string `json:"flux"`
	// Argo CD: Healthy, Progressing, Suspended, Degraded, with its message.
	Argo        string `json:"argo"`
	ArgoMessage string `json:"argoMessage"`
	// The object that each action of Argo CD that is offered makes of it.
	Actions map[string]map[string]any `json:"actions"`
}

type expressions struct {
	Spec struct {
		HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
	} `json:"spec"`
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "health:", err)
		os.Exit(1)
	}
	return value
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: health ARGOCD-CM.yaml FLUX-KUSTOMIZATIONS.yaml <objects.json")
		os.Exit(2)
	}
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	must(0, yaml.Unmarshal(must(os.ReadFile(os.Args[1])), &configMap))
	evaluators := map[string]*cel.StatusEvaluator{}
	for _, document := range documents(must(os.ReadFile(os.Args[2]))) {
		var e expressions
		must(0, yaml.Unmarshal(document, &e))
		for _, check := range e.Spec.HealthCheckExprs {
			evaluators[check.Kind] = must(cel.NewStatusEvaluator(&check.HealthCheckExpressions))
		}
	}
	var list unstructured.UnstructuredList
	must(0, list.UnmarshalJSON(must(io.ReadAll(os.Stdin))))
	out := json.NewEncoder(os.Stdout)
	for i := range list.Items {
		object := &list.Items[i]
		v := verdict{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
		v.Kstatus = string(must(status.Compute(object)).Status)
		if e, found := evaluators[v.Kind]; found {
			result, err := e.Evaluate(context.Background(), object)
			if err != nil {
				// As its reader of statuses has it. Flux asks again until its timeout.
				v.Flux = string(status.UnknownStatus)
			} else {
				v.Flux = string(result.Status)
			}
		}
		argo := must(argoHealth(configMap.Data["resource.customizations.health.muster.dev_"+v.Kind], object))
		v.Argo, v.ArgoMessage = argo.Status, argo.Message
		v.Actions = must(argoActions(configMap.Data["resource.customizations.actions.muster.dev_"+v.Kind], object))
		must(0, out.Encode(v))
	}
}
