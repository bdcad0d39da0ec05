// Program gpu-plugin announces GPUs that are not there to the kubelet whose device plugin directory it sees, and gives each
// container the ids of those it got, as a GPU vendor's plugin does. It registers again when the kubelet restarts.
//
//	gpu-plugin [--resource nvidia.com/gpu] [--count 4] [--prefix GPU-] [--numa 0,0,1,1] [--cdi]
//
// With --cdi it describes the devices for container runtimes (/var/run/cdi), each with a device node /dev/nvidia<number>, and
// names them as CDI does: nvidia.com/gpu=GPU-0.
//
// A program of its own, because only real nodes need it; of this module, because it is made from Kubernetes' own stub.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

// allocate answers with ids. With a CDI kind, both the variable and the runtime are told the devices' CDI names.
func allocate(cdiKind string) func(*deviceplugin.AllocateRequest,
	map[string]*deviceplugin.Device) (*deviceplugin.AllocateResponse, error) {
	return func(request *deviceplugin.AllocateRequest,
		_ map[string]*deviceplugin.Device) (*deviceplugin.AllocateResponse, error) {
		answer := &deviceplugin.AllocateResponse{}
		for _, container := range request.ContainerRequests {
			response := &deviceplugin.ContainerAllocateResponse{}
			names := container.DevicesIds
			if cdiKind != "" {
				names = nil
				for _, id := range container.DevicesIds {
					names = append(names, cdiKind+"="+id)
					response.CdiDevices = append(response.CdiDevices, &deviceplugin.CDIDevice{Name: cdiKind + "=" + id})
				}
			}
			response.Envs = map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(names, ",")}
			answer.ContainerResponses = append(answer.ContainerResponses, response)
		}
		return answer, nil
	}
}

// first prefers the devices that come first, so that a test knows which a container gets.
func first(request *deviceplugin.PreferredAllocationRequest,
	_ map[string]*deviceplugin.Device) (*deviceplugin.PreferredAllocationResponse, error) {
	answer := &deviceplugin.PreferredAllocationResponse{}
	for _, container := range request.ContainerRequests {
		ids := slices.Sorted(slices.Values(container.AvailableDeviceIDs))
		answer.ContainerResponses = append(answer.ContainerResponses,
			&deviceplugin.ContainerPreferredAllocationResponse{DeviceIDs: ids[:min(int(container.AllocationSize), len(ids))]})
	}
	return answer, nil
}

// describe writes the CDI specification of the devices.
func describe(kind string, devices []*deviceplugin.Device) error {
	var list []any
	for i, device := range devices {
		node := map[string]any{"path": fmt.Sprintf("/dev/nvidia%d", i), "hostPath": "/dev/null"}
		list = append(list, map[string]any{"name": device.ID,
			"containerEdits": map[string]any{"deviceNodes": []any{node}}})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": list})
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/var/run/cdi", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/var/run/cdi/"+strings.ReplaceAll(kind, "/", "-")+".json", text, 0o644)
}

// numaNodes reads the NUMA node of each device; none for those beyond the end of the list.
func numaNodes(list string) ([]int64, error) {
	var nodes []int64
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		node, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func run(resource, prefix string, count int, numa []int64, cdi bool) error {
	ctx := context.Background()
	devices := make([]*deviceplugin.Device, count)
	for i := range devices {
		devices[i] = &deviceplugin.Device{ID: fmt.Sprintf("%s%d", prefix, i), Health: deviceplugin.Healthy}
		if i < len(numa) {
			devices[i].Topology = &deviceplugin.TopologyInfo{Nodes: []*deviceplugin.NUMANode{{ID: numa[i]}}}
		}
	}
	kind := ""
	if cdi {
		kind = resource
		if err := describe(kind, devices); err != nil {
			return err
		}
	}
	socket := deviceplugin.DevicePluginPath + strings.ReplaceAll(resource, "/", "-") + ".sock"
	stub := plugin.NewDevicePluginStub(klog.Background(), devices, socket, resource, false, true)
	stub.SetAllocFunc(allocate(kind))
	stub.SetGetPreferredAllocFunc(first)
	if err := stub.Start(ctx); err != nil {
		return err
	}
	if err := stub.Register(ctx, deviceplugin.KubeletSocket, resource, deviceplugin.DevicePluginPath); err != nil {
		return err
	}
	stub.Watch(ctx, deviceplugin.KubeletSocket, resource, deviceplugin.DevicePluginPath)
	return nil
}

func main() {
	resource := flag.String("resource", "nvidia.com/gpu", "name of the extended resource")
	count := flag.Int("count", 4, "how many devices")
	prefix := flag.String("prefix", "GPU-", "ids are this and a number from 0")
	numaList := flag.String("numa", "", "the NUMA node of each device, separated by commas")
	cdi := flag.Bool("cdi", false, "name devices as CDI does")
	flag.Parse()
	numa, err := numaNodes(*numaList)
	if err == nil {
		err = run(*resource, *prefix, *count, numa, *cdi)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu-plugin:", err)
		os.Exit(1)
	}
}
