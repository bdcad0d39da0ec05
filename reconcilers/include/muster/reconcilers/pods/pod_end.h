// What the end of a pod means: whose fault it was, and whether the pod still holds anything.
#pragma once

#include "muster/client/pod.h"

namespace muster::reconcilers {

// Succeeded or Failed: holds nothing any more.
bool is_terminal(const client::Pod& pod);
// A kubelet turned the pod away before it ran: no fault of the program (OutOfcpu,
// UnexpectedAdmissionError, …).
bool is_refusal(const client::Pod& pod);
// The pod was ended by its node or the cluster, not by its program (Evicted, NodeLost, Shutdown, …). Never
// together with is_refusal().
bool is_cluster_fault(const client::Pod& pod);
// Failed, and neither of the two.
bool is_program_fault(const client::Pod& pod);

}  // namespace muster::reconcilers
