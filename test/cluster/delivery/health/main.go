// Program health says what GitOps tools make of objects, as these tools compute it:
//
//	health ARGOCD-CM.yaml FLUX-KUSTOMIZATIONS.yaml <objects.json
//
// kstatus and Flux's expressions are Flux's own libraries; Lua and ignored differences are Argo CD's. For each object of the
// List a line of JSON is written.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	appv1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/argo/normalizers"
	"github.com/argoproj/argo-cd/v3/util/lua"
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
	// The spec as Argo CD compares it: without what is ignored.
	Compared any `json:"compared"`
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

// By "group/kind", as Argo CD reads its ConfigMap.
func overridesOf(file string) map[string]appv1.ResourceOverride {
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	must(0, yaml.Unmarshal(must(os.ReadFile(file)), &configMap))
	overrides := map[string]appv1.ResourceOverride{}
	for key, text := range configMap.Data {
		parts := strings.SplitN(strings.TrimPrefix(key, "resource.customizations."), ".", 2)
		groupKind := strings.Replace(parts[1], "_", "/", 1)
		override := overrides[groupKind]
		switch parts[0] {
		case "health":
			override.HealthLua = text
		case "actions":
			override.Actions = text
		case "ignoreDifferences":
			must(0, yaml.UnmarshalStrict([]byte(text), &override.IgnoreDifferences))
		default:
			must(0, fmt.Errorf("%s: this program does not know it", key))
		}
		overrides[groupKind] = override
	}
	return overrides
}

func evaluatorsOf(file string) map[string]*cel.StatusEvaluator {
	evaluators := map[string]*cel.StatusEvaluator{}
	for _, document := range bytes.Split(must(os.ReadFile(file)), []byte("\n---\n")) {
		var e expressions
		must(0, yaml.Unmarshal(document, &e))
		for _, check := range e.Spec.HealthCheckExprs {
			evaluators[check.Kind] = must(cel.NewStatusEvaluator(&check.HealthCheckExpressions))
		}
	}
	return evaluators
}

func actionsOf(vm lua.VM, object *unstructured.Unstructured) map[string]map[string]any {
	result := map[string]map[string]any{}
	scripts := must(vm.GetResourceActionDiscovery(object))
	if len(scripts) == 0 {
		return result
	}
	for _, offered := range must(vm.ExecuteResourceActionDiscovery(object, scripts)) {
		definition := must(vm.GetResourceAction(object, offered.Name))
		changed := must(vm.ExecuteResourceAction(object, definition.ActionLua, nil))
		if len(changed) != 1 || changed[0].K8SOperation != lua.PatchOperation {
			must(0, fmt.Errorf("%s: does something else than to change its object", offered.Name))
		}
		result[offered.Name] = changed[0].UnstructuredObj.Object
	}
	return result
}

func compared(overrides map[string]appv1.ResourceOverride, object *unstructured.Unstructured) any {
	normalizer := must(normalizers.NewIgnoreNormalizer(nil, overrides, normalizers.IgnoreNormalizerOpts{}))
	object = object.DeepCopy()
	must(0, normalizer.Normalize(object))
	return object.Object["spec"]
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: health ARGOCD-CM.yaml FLUX-KUSTOMIZATIONS.yaml <objects.json")
		os.Exit(2)
	}
	vm := lua.VM{ResourceOverrides: overridesOf(os.Args[1])}
	evaluators := evaluatorsOf(os.Args[2])
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
		argo := must(lua.ResourceHealthOverrides(vm.ResourceOverrides).GetResourceHealth(object))
		if argo == nil {
			must(0, fmt.Errorf("no health script for %s", v.Kind))
		}
		v.Argo, v.ArgoMessage = string(argo.Status), argo.Message
		v.Actions = actionsOf(vm, object)
		v.Compared = compared(vm.ResourceOverrides, object)
		must(0, out.Encode(v))
	}
}
