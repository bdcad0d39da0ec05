// Marks the root of a module, no more: each version of Kubernetes has a file of its own, as 1.35.mod.
module muster.dev/controlplane/servers

go 1.26.0
