// Program gpu-plugin announces GPUs that are not there to the kubelet whose device plugin directory it sees, and gives each
// container the ids of those it got, as a GPU vendor's plugin does. It registers again when the kubelet restarts.
//
//	gpu-plugin [--resource nvidia.com/gpu] [--count 4] [--prefix GPU-]
//
// A program of its own, because only real nodes need it; of this module, because it is made from Kubernetes' own stub.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"k8s.io/klog/v2"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func allocate(request *deviceplugin.AllocateRequest,
	_ map[string]*deviceplugin.Device) (*deviceplugin.AllocateResponse, error) {
	answer := &deviceplugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")},
		})
	}
	return answer, nil
}

func run(resource, prefix string, count int) error {
	ctx := context.Background()
	devices := make([]*deviceplugin.Device, count)
	for i := range devices {
		devices[i] = &deviceplugin.Device{ID: fmt.Sprintf("%s%d", prefix, i), Health: deviceplugin.Healthy}
	}
	socket := deviceplugin.DevicePluginPath + strings.ReplaceAll(resource, "/", "-") + ".sock"
	stub := plugin.NewDevicePluginStub(klog.Background(), devices, socket, resource, false, false)
	stub.SetAllocFunc(allocate)
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
	flag.Parse()
	if err := run(*resource, *prefix, *count); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-plugin:", err)
		os.Exit(1)
	}
}
