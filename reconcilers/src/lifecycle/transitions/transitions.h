// What can happen to a job in one step. lifecycle.cc says in which order these are looked at; here is what
// each of them does. None of them looks at anything but the JobStep.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lifecycle/job_step.h"

namespace muster::reconcilers {

// --- waiting.cc

// False: the spec can never run. That is said in Accepted, Stalled and the queue's reason.
bool accept(JobStep& s);
void not_admitted(JobStep& s, const std::string& reason, const std::string& message);
// While it holds places: condition PolicyViolation, if its Project does not allow it any more.
void say_violation(JobStep& s);
// status.endpoints and condition Exposed, as spec.expose and its Service are.
void say_exposure(JobStep& s);
// True: the job must not be placed yet, and says why: earlier pods, retryAt, volumes, or its namespace.
bool held_back(JobStep& s);
// Placement starts the job: the assignment is written, and all its pods are to be made.
void admit(JobStep& s, const JobDecision& start);

// --- disruption.cc

// What it has run at its present size. Whoever ends the attempt, begins the next one or changes the size
// calls this first, while the assignment is still as it was.
void count_run(JobStep& s);
// What the decision that is carried out costs it, and a line about it. To be called before the places go.
void count_loss(JobStep& s, const JobDecision& decision);
// The cluster has failed it. Lost is what it did since its last report, and another start.
void count_fault(JobStep& s, const char* cause, const std::string& message);
// Its own program has failed. That is no disturbance, but what was not saved is lost.
void count_program_fault(JobStep& s);
// The last pod of an evicted gang has gone. If the gang was taken for one that saves when asked
// (count_loss()), and has not, the work since its last checkpoint is lost. Until then status.startedAt stays,
// without an assignment: so the next process knows that this is still to be judged, and nothing is counted
// twice.
void end_eviction(JobStep& s);
// All its pods are told to go, and nothing has failed. They are not known to save until they have said so.
void ask_to_save(JobStep& s);
// Whether the pods of the last attempt that ended have said so.
void note_saves(JobStep& s);
// The gang is whole for the first time in this attempt.
void note_start(JobStep& s);
// It is whole again after it has grown in place.
void note_resize(JobStep& s);

// --- giving_back.cc

// The time that this attempt ran counts against maxRuntime.
void add_run_time(JobStep& s);
// The places go back; the job queues again with its old submission time.
void withdraw(JobStep& s, const std::string& reason, const std::string& text, client::EventType type);
// withdraw(), and what the next step would find, so that one write says it all. The next step asks for a
// place.
void requeue(JobStep& s, const std::string& reason, const std::string& message,
             client::EventType type = client::EventType::kWarning);
// requeue(), and not again before a growing delay.
void back_off(JobStep& s, const std::string& reason, const std::string& message);
// requeue(), and other places are kept for it.
void move_to(JobStep& s, const JobDecision& to);
// The job has ended.
void complete(JobStep& s);
void fail(JobStep& s, const std::string& reason, const std::string& message);
// What has ended stays for its logs. What still runs is ended: with completion policy First, or a role that
// is not waited for.
void finished(JobStep& s);

// --- surge.cc

// A replica of a service is made elsewhere before it goes here (RULES.md 5.12). The next attempt begins
// there, and the pods of this one stay until that is ready. False: it cannot be, and nothing was changed.
bool surge_to(JobStep& s, const JobDecision& to);
// It is ready there, or nobody serves here any more.
void end_surge(JobStep& s);
// True: it could not start there. The pods that serve are the gang again.
bool moves_in_vain(JobStep& s);

// --- attempt.cc

// Holds the pods against the assignment. Pods that stand for no place of it are removed.
void match_pods(JobStep& s);
// Takes over what pods have said about checkpoints. That counts after the end of the job too (`live` is
// false); no conditions are changed then.
void note_checkpoints(JobStep& s, bool live);
// How many pods have to report depends on how many there are: again, at the end of a step that has changed
// that. An attempt whose pods are still to be made starts from what counts now.
void note_checkpoints_of_other_size(JobStep& s);
// From which checkpoint all pods of this attempt start. Decided before the first of them is made.
void decide_resume(JobStep& s);
// The pod whose program failed; nullptr: all go on. A server is not meant to end with success either.
const client::Pod* failed_program(const JobStep& s);
// The program is at fault: the gang starts again in the same places, with the next attempt number, as often
// as restart.limit allows within restart.window. The count and the new attempt are one write, so that no
// fault is counted twice.
void restart(JobStep& s, const client::Pod& failed);
// The next attempt, in the places of the assignment.
void begin_attempt(JobStep& s, const std::string& why, const std::string& reason, const char* action,
                   client::EventType type = client::EventType::kWarning);
// The next attempt after a fault of the program: in the same places, or from the queue where one of them is
// not to be used.
void start_again(JobStep& s, const std::string& why);
// Makes pods that are missing, and tells placement of places that were refused. No pod is made before the
// last pod of an earlier attempt has gone, which holds the very GPUs until then.
void keep_whole(JobStep& s);
// The headless Service comes when every pod has its address, or a moment after the last pod was made. That is
// before a kubelet has started a program. So the endpoint controllers look at the gang once, and not at every
// pod that starts. A controller that begins here makes it, because the gang has not run.
void publish_names(JobStep& s);
void judge_readiness(JobStep& s);

// --- server_start.cc

// When a gang that starts has used up its startTimeout. For a server the time runs from its admission, or
// from when it was last ready, whatever ends in between.
crds::Time start_due(const JobStep& s);
// A server has ended. It starts again in its places, at once or after a delay; or, if it was never ready and
// its time is up, it gives them back.
void restart_server(JobStep& s, const client::Pod& failed);
// Why a server is not started, in PodsReady, as soon as its pods say it.
void say_start_problem(JobStep& s);
// Of a gang whose startTimeout is used up. True: it is a server of which it is known what is wrong, and it
// has given its places back.
bool server_is_late(JobStep& s);

// --- repair.cc

// Which places are lost, because their node or one of their GPUs is.
void find_lost(JobStep& s);
// Why the first of them is; "": none is.
std::string why_lost(const JobStep& s);
// True: a gang that ran, or whose program fails, has lost places. Placement finds others for them in one
// decision, and the rest of the gang stays where it is. Nothing is done about it before that decision.
bool loses_ground(JobStep& s);
// The next attempt, from the last checkpoint, with other places for those that were lost.
void reform(JobStep& s, const JobDecision& replace);
// Why the pod of this place is lost; "": it is not. Its node or somebody else has ended it, or it is gone
// though the gang had run whole.
std::string lost_at(const JobStep& s, std::size_t i);
// The same of the first pod that is lost.
std::string lost_pod(const JobStep& s);
// This place was refused or is lost. Placement has given it back already, so nothing may be made there any
// more, not even when the refused pod is gone: the refusal in the status remembers it.
bool is_displaced(const JobStep& s, std::size_t i);
// Whether any place is, beside those that go (ascending). Placement may have given it to others since, so no
// attempt may begin there: neither by an edit, nor by a fault, nor by a change of size that was decided
// before placement knew. (A process that begins is told of displaced places by the first step of their job.)
bool has_displaced(JobStep& s, const std::vector<std::size_t>& gone = {});
// The first node of a place that is cordoned, not Ready or gone, beside those that go; "": there is none.
// What runs there runs on, but no attempt begins there.
std::string unusable_node(const JobStep& s, const std::vector<std::size_t>& gone = {});
// Writes these places into the assignment.
void replace_pods(JobStep& s, const JobDecision& replace);

// --- refused_places.cc

Holding holding_of(const JobStep& s, std::size_t i);
// Why its node will not give this place its GPUs; "": it may.
std::string refused_at(const JobStep& s, std::size_t i);
// Whether the GPUs of all these places are there for their pods. If not, what is waited for is said. The pods
// of a gang that starts are made together.
bool are_held(JobStep& s, const std::vector<std::size_t>& places);
void remember_refusal_of(JobStep& s, const client::Pod& pod);
void remember_refusal_of(JobStep& s, std::size_t place);  // whose pod was not made
// A GPU of these places is full. To be called before the places go.
void avoid_nodes_of(JobStep& s, const std::vector<Place>& places);
// Placement avoids every node of the list. So an entry goes when its time has come, and not with the next
// refusal; but not while a place on the node is still to be replaced.
void forget_old_refusals(JobStep& s);
void wake_for_refusals(JobStep& s);

// --- time_limits.cc

// True: startTimeout, maxRuntime or idle.timeout has ended the attempt.
bool out_of_time(JobStep& s);
// Takes the warning back that maxRuntime ends it soon.
void say_no_end(JobStep& s, const char* reason);
// A problem that is told in other words is not told again.
void say_idleness(JobStep& s, crds::ConditionStatus value, const char* reason, std::string message);

// --- resize.cc

// True: because of an edit the gang is taken back or started anew, or it has become smaller. Pods that have
// to be others are started again from the checkpoint: where the gang stands if the same places will do, else
// from the queue. An edit of anything else acts by itself.
bool follow_spec(JobStep& s);
void shrink(JobStep& s, const JobDecision& to);
void grow(JobStep& s, const JobDecision& to);
// Of a gang that starts anew: indexes from 0 without a gap, as programs of a fixed size expect them. Pods
// that stand beside one of another role keep theirs.
void renumber_places(JobStep& s);
// Members that are lost are done without, if the rest of the gang is enough and its members may come and go;
// others join when there is room. Groups go whole or not at all, so such a gang starts anew. A member that
// joins and does not start in time is done without as well; if that cannot be, the gang is taken back.
void go_on_without(JobStep& s);
// True: members that were lost have other places, and the others run on.
bool replace_members(JobStep& s, const JobDecision& replace);
// A member that is ready has joined.
void welcome_members(JobStep& s);
bool is_resizing(const JobStep& s);

}  // namespace muster::reconcilers
