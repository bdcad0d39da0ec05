#include "core/cases.h"

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <set>
#include <stdexcept>

#include "core/synthetic.h"
#include "process.h"

namespace muster::bench {
namespace {

using namespace placement;

constexpr std::size_t kNodes = 12'500;
constexpr std::size_t kPods = 100'000;
constexpr std::size_t kProjects = 1000;
constexpr std::size_t kEvents = 200;  // of each kind, at full size
constexpr int kRepeats = 5;

std::size_t scaled(std::size_t n, double size) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(static_cast<double>(n) * size)));
}

template <class Work>
double milliseconds_of(Work&& work) {
  const double start = thread_cpu_seconds();
  work();
  return (thread_cpu_seconds() - start) * 1e3;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// --- the busy cluster

struct Busy {
  Cluster cluster;
  std::vector<JobSpec> jobs;
  std::size_t nodes = 0, projects = 0;
};

Busy waiting_workload(double size) {
  Busy b;
  b.nodes = scaled(kNodes, size);
  b.projects = scaled(kProjects, size);
  b.cluster.upsert_pool(pool_spec());
  add_nodes(b.cluster, b.nodes);
  add_projects(b.cluster, b.projects, 100);
  b.jobs = workload(scaled(kPods, size), b.projects);
  for (const JobSpec& job : b.jobs) b.cluster.upsert_job(job);
  return b;
}

Plan start_all(Busy& b) {
  Plan made = plan(b.cluster, kNow);
  require(starts(made) == static_cast<std::int64_t>(b.jobs.size()),
          std::to_string(starts(made)) + " of " + std::to_string(b.jobs.size()) + " jobs started");
  return made;
}

Busy running_workload(double size) {
  Busy b = waiting_workload(size);
  confirm(b.cluster, start_all(b));
  plan(b.cluster, kNow);
  return b;
}

// Each event is one change and the plan that follows; what the plan starts is confirmed outside of the time.
std::vector<Figure> events(double size) {
  Busy b = running_workload(size);
  Random random(2);
  std::vector<double> arrivals, ends, changes, all;
  std::size_t changing = 0;
  const auto event = [&](std::vector<double>& sample, auto&& change) {
    Plan made;
    sample.push_back(milliseconds_of([&] {
      change();
      made = plan(b.cluster, kNow);
    }));
    all.push_back(sample.back());
    confirm(b.cluster, made);
    return made;
  };
  constexpr std::pair<std::int32_t, std::int64_t> kArriving[] = {
      {1, 1000}, {1, 500}, {8, 1000}, {1, 2000}, {4, 4000}};
  // In a small cluster so many would not find room.
  const std::size_t count = std::max<std::size_t>(20, scaled(kEvents, size));
  for (std::size_t i = 0; i < count; ++i) {
    const auto [pods, milli] = kArriving[i % 5];
    const JobSpec job = job_spec("new-" + std::to_string(i), random.below(b.projects), pods, milli);
    const Plan made = event(arrivals, [&] { b.cluster.upsert_job(job); });
    require(starts(made) == 1, job.id + " did not start");
    const std::string ended =
        b.jobs[random.below(b.jobs.size())].id;  // one that has ended already changes nothing
    event(ends, [&] { b.cluster.remove_job(ended); });
    if (i % 2 == 0) changing = random.below(b.nodes);
    NodeSpec node = node_spec(changing);
    node.usable = i % 2 == 1;
    event(changes, [&] { b.cluster.upsert_node(node); });
  }
  return {{"p99", percentile(all, 99), "ms", at_most(10)},
          {"p50", percentile(all, 50), "ms"},
          {"p99, a job arrives", percentile(arrivals, 99), "ms", at_most(10)},
          {"p99, a job ends", percentile(ends, 99), "ms", at_most(10)},
          {"p99, a node changes", percentile(changes, 99), "ms", at_most(10)}};
}

std::vector<Figure> scratch(double size) {
  std::vector<double> sample;
  for (int i = 0; i < 3; ++i) {
    Busy b = waiting_workload(size);
    sample.push_back(milliseconds_of([&] { start_all(b); }));
  }
  return {{"median", median(sample), "ms", at_most(250)}};
}

// As after a restart of the operator: the model from nothing, with what runs, and the first plan.
std::vector<Figure> restart(double size) {
  Busy before = running_workload(size);
  double built = 0;
  const double total = milliseconds_of([&] {
    Cluster cluster;
    built = milliseconds_of([&] {
      cluster.upsert_pool(pool_spec());
      add_nodes(cluster, before.nodes);
      add_projects(cluster, before.projects, 100);
      for (const JobSpec& job : before.jobs) {
        cluster.upsert_job(job);
        cluster.set_assignment(job.id, *before.cluster.assignment(job.id));
      }
    });
    require(plan(cluster, kNow).decisions.empty(), "something was decided though all of it runs");
  });
  return {{"all", total, "ms"}, {"the first plan alone", total - built, "ms"}};
}

// --- gangs

// Some nodes of all but the last blocks have something on them, so that only a block that is far down the
// list holds the gang.
std::vector<Figure> gang(double size, std::size_t nodes, std::int32_t gpus, std::size_t pods, double goal,
                         bool fits) {
  nodes = scaled(nodes, size);
  const auto members = static_cast<std::int32_t>(scaled(pods, size));
  std::vector<double> sample;
  for (int i = 0; i < kRepeats; ++i) {
    Cluster cluster;
    cluster.upsert_pool(pool_spec());
    add_nodes(cluster, nodes, gpus);
    add_projects(cluster, 1, static_cast<std::int64_t>(nodes) * gpus);
    for (std::size_t n = 0; n + nodes / 20 * 5 < nodes; n += 4) {
      JobSpec job = job_spec("one-" + std::to_string(n), 0, 1, 1000);
      cluster.upsert_job(job);
      cluster.set_assignment(job.id, {"default", kNow, {{0, 0, "node-" + std::to_string(n), {0}}}});
    }
    plan(cluster, kNow);
    JobSpec job = job_spec("gang", 0, members, 8000);
    job.topology.required = size == 1 && nodes > 625 ? kBlock : kZone;
    Plan made;
    sample.push_back(milliseconds_of([&] {
      cluster.upsert_job(job);
      made = plan(cluster, kNow);
    }));
    require(starts(made) == (fits ? 1 : 0), fits ? "the gang did not start" : "the gang started");
  }
  return {{"median", median(sample), "ms", at_most(goal)}};
}

// --- reclaim

// One project holds all GPUs without a quota for them; another, to whom they belong, asks for all of
// them at once, or for `gang` whole nodes.
std::vector<Figure> reclaim(double size, std::int32_t pods_each, std::size_t all_nodes = 500,
                            std::size_t gang = 500, double goal = 1000) {
  const std::size_t nodes = scaled(all_nodes, size);
  const auto members = static_cast<std::int32_t>(scaled(gang, size));
  const auto gpus = static_cast<std::int32_t>(nodes) * kGpusPerNode;
  std::vector<double> sample;
  const auto each = std::max<std::int32_t>(
      1, static_cast<std::int32_t>(std::llround(pods_each * (pods_each > 1 ? size : 1))));
  for (int i = 0; i < 3; ++i) {
    Cluster cluster;
    cluster.upsert_pool(pool_spec());
    add_nodes(cluster, nodes);
    add_projects(cluster, 2, 0);
    cluster.upsert_queue(project_spec(1, gpus));
    QueueSpec above;
    above.name = "team-0";
    above.parent = "department-0";
    above.in_default_pool.quota.gpu = MilliGpu{gpus * kMilliPerGpu};
    cluster.upsert_queue(above);
    above.name = "department-0";
    above.parent = "";
    cluster.upsert_queue(above);
    for (std::int32_t j = 0; j < gpus; j += each)
      cluster.upsert_job(job_spec("borrower-" + std::to_string(j), 0, std::min(each, gpus - j), 1000));
    confirm(cluster, plan(cluster, kNow - seconds(600)));
    plan(cluster, kNow - seconds(600));
    Plan made;
    sample.push_back(milliseconds_of([&] {
      cluster.upsert_job(job_spec("claimant", 1, members, 8000));
      made = plan(cluster, kNow);
    }));
    const std::int32_t needed = members * kGpusPerNode;
    require(evictions(made) == (needed + each - 1) / each, std::to_string(evictions(made)) + " evictions");
    require(cluster.nominated("project-1/claimant"), "the claimant was promised nothing");
  }
  return {{"median", median(sample), "ms", at_most(goal)}};
}

// --- verdicts

// 8 pods of a GPU on each node, everything in use, every project at its quota.
Cluster full_cluster(double size, bool preemptible, std::size_t& projects) {
  const std::size_t nodes = scaled(kNodes, size);
  projects = scaled(kProjects, size);
  Cluster cluster;
  cluster.upsert_pool(pool_spec());
  add_nodes(cluster, nodes);
  const std::size_t gpus = nodes * kGpusPerNode;
  add_projects(cluster, projects, static_cast<std::int64_t>((gpus + projects - 1) / projects));
  for (std::size_t n = 0; n < nodes; ++n) {
    for (std::int32_t g = 0; g < kGpusPerNode; ++g) {
      const std::size_t index = n * kGpusPerNode + static_cast<std::size_t>(g);
      JobSpec job = job_spec("one-" + std::to_string(index), index % projects, 1, 1000);
      job.preemptible = preemptible;
      cluster.upsert_job(job);
      cluster.set_assignment(job.id,
                             {"default", kNow - seconds(60), {{0, 0, "node-" + std::to_string(n), {g}}}});
    }
  }
  plan(cluster, kNow);
  return cluster;
}

// `entitled`: the claimant is far below its quota, but nobody may be evicted.
std::vector<Figure> verdict(double size, bool entitled) {
  std::size_t projects = 0;
  Cluster cluster = full_cluster(size, !entitled, projects);
  const auto pods = static_cast<std::int32_t>(scaled(512, size));
  QueueSpec own = project_spec(projects, entitled ? 8 * pods : 0);
  own.parent = "team-0";
  cluster.upsert_queue(own);
  plan(cluster, kNow);
  std::vector<double> sample;
  for (int i = 0; i < 50; ++i) {
    JobSpec job = job_spec("gang-" + std::to_string(i), projects, pods, 8000);
    job.topology.required = kBlock;
    job.roles[0].per_pod.cpu.value += i;  // each is a request of its own
    Plan made;
    sample.push_back(milliseconds_of([&] {
      cluster.upsert_job(job);
      made = plan(cluster, kNow);
    }));
    const PendingReason* said = cluster.pending_reason(job.id);
    require(made.decisions.empty() && said != nullptr && !said->message.empty(), "no verdict on " + job.id);
    cluster.remove_job(job.id);
    plan(cluster, kNow);
  }
  return {{"median", median(sample), "ms", at_most(5)}, {"p99", percentile(sample, 99), "ms"}};
}

// 20,000 jobs wait, no two of which ask for the same, so that nothing learned about one helps with another.
// `entitled`: they are of projects that have nothing yet of what they are guaranteed, and everybody who runs
// may be evicted. The event loop stands still while a plan is made, and a lease is lost after 10 s without a
// renewal.
// `in_pieces`: nobody may be evicted, and enough is free in all, but nowhere two GPUs together.
std::vector<Figure> different_shapes(double size, bool entitled, bool in_pieces = false) {
  std::size_t projects = 0;
  Cluster cluster = full_cluster(size, !in_pieces, projects);
  for (std::size_t n = 0; in_pieces && n < scaled(kNodes, size); ++n) {
    const std::size_t index = n * kGpusPerNode;
    cluster.remove_job("project-" + std::to_string(index % projects) + "/one-" + std::to_string(index));
  }
  const std::size_t jobs = scaled(20'000, size);
  const std::size_t owners = entitled ? scaled(100, size) : projects;
  for (std::size_t p = 0; entitled && p < owners; ++p) {
    QueueSpec own = project_spec(projects + p, 100);
    own.parent = "team-0";
    cluster.upsert_queue(own);
  }
  plan(cluster, kNow);
  for (std::size_t i = 0; i < jobs; ++i) {
    const auto pods = static_cast<std::int32_t>(1 + i % 7);
    const auto gpus = static_cast<std::int64_t>(2 + i % 6);
    JobSpec job = job_spec("shape-" + std::to_string(i), (entitled ? projects : 0) + i % owners, pods,
                           gpus * kMilliPerGpu);
    job.roles[0].per_pod.cpu.value += static_cast<std::int64_t>(i);
    if (i % 3 != 0) job.topology.required = i % 3 == 1 ? kRack : kBlock;
    job.submitted = kNow - seconds(3600);
    cluster.upsert_job(job);
  }
  // As the operator does it: a plan that was cut off is followed by another one.
  std::vector<double> first, later;
  std::int64_t evicted = 0, decided = 0, second = 0;
  const auto plan_all = [&](std::vector<double>& sample) {
    bool is_cut_off = true;
    while (is_cut_off) {
      Plan made;
      sample.push_back(milliseconds_of([&] { made = plan(cluster, kNow + seconds(++second)); }));
      evicted += evictions(made);
      decided += static_cast<std::int64_t>(made.decisions.size());
      is_cut_off = made.is_cut_off;
      require(second < 10'000, "plans do not come to rest");
    }
  };
  plan_all(first);
  require(entitled || decided == 0, "something was decided in a full cluster without a right");
  require(!entitled || evicted > 0, "nobody was evicted");
  std::size_t unsaid = 0;
  for (std::size_t i = 0; i < jobs; ++i) {
    const std::string id =
        "project-" + std::to_string((entitled ? projects : 0) + i % owners) + "/shape-" + std::to_string(i);
    if (!cluster.assignment(id) && cluster.pending_reason(id) == nullptr) ++unsaid;
  }
  require(unsaid == 0, std::to_string(unsaid) + " jobs wait and do not say why");
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t index = i * projects + 8 * i + 1;
    cluster.remove_job("project-" + std::to_string(index % projects) + "/one-" + std::to_string(index));
    plan_all(later);
  }
  return {{"the longest of the first plans", percentile(first, 100), "ms", at_most(3000)},
          {"the first plans together", std::accumulate(first.begin(), first.end(), 0.0), "ms"},
          {"how many these are", static_cast<double>(first.size()), "plans"},
          {"the longest after a GPU is freed", percentile(later, 100), "ms", at_most(3000)}};
}

// 50 jobs in each project, of 25 kinds, all of them for 2 GPUs a pod and more, in a cluster that is full.
// Then a GPU becomes free: nothing fits still. `small`: and one job in each project asks for one GPU only.
std::vector<Figure> long_line(double size, bool small) {
  std::size_t projects = 0;
  Cluster cluster = full_cluster(size, true, projects);
  for (std::size_t p = 0; p < projects; ++p) {
    for (std::size_t k = 0; k < 50; ++k) {
      const auto pods = static_cast<std::int32_t>(1 + k % 5);
      const auto gpus = static_cast<std::int64_t>(2 + k % 25 / 5);
      JobSpec job = job_spec("waiting-" + std::to_string(k), p, pods, gpus * kMilliPerGpu);
      if (small && k == 25) job = job_spec("small", p, 1, 1000);
      // Long enough for a reservation, but for small clusters, of which that would be a large part.
      job.submitted = kNow - seconds(size < 0.1 ? 60 : 3600);
      cluster.upsert_job(job);
    }
  }
  const Plan first = plan(cluster, kNow);
  require(first.decisions.empty(), "something was decided in a full cluster without a right");
  std::vector<double> sample;
  std::size_t started = 0;
  std::set<std::size_t> hit;
  Random random(3);
  for (std::size_t i = 0; i < 30 && i < projects; ++i) {
    const std::size_t index = random.below(scaled(kNodes, size) * kGpusPerNode);
    const std::string id = "project-" + std::to_string(index % projects) + "/one-" + std::to_string(index);
    // Whoever had lost two would have a right to take.
    if (!cluster.knows(id) || !hit.insert(index % projects).second) continue;
    Plan made;
    sample.push_back(milliseconds_of([&] {
      cluster.remove_job(id);
      made = plan(cluster, kNow);
    }));
    require(starts(made) <= (small ? 1 : 0), std::to_string(starts(made)) + " started");
    if (starts(made) == 1) ++started;
    require(evictions(made) == 0, "something was evicted");
    confirm(cluster, made);
    plan(cluster, kNow);
    if (starts(made) == 1) continue;
    // Full again, so that GPUs do not add up.
    JobSpec again = job_spec("one-" + std::to_string(index), index % projects, 1, 1000);
    cluster.upsert_job(again);
    confirm(cluster, plan(cluster, kNow));
    plan(cluster, kNow);
  }
  // Not all: the node may be kept for the first in order.
  require(!small || 2 * started >= sample.size(), std::to_string(started) + " started in all");
  return {{"median", median(sample), "ms", at_most(10)}, {"p99", percentile(sample, 99), "ms"}};
}

// Every node but some is held by an elastic job of 8 GPUs that could do with 4 and would like 16. A job of
// one GPU ends, and one of them takes it.
std::vector<Figure> growth(double size) {
  const std::size_t projects = scaled(kProjects, size);
  const std::size_t nodes = scaled(kNodes, size) / projects * projects;  // all have the same
  const std::size_t ends = std::min<std::size_t>(30, std::max<std::size_t>(1, nodes / 2));
  Cluster cluster;
  cluster.upsert_pool(pool_spec());
  add_nodes(cluster, nodes);
  add_projects(cluster, projects, static_cast<std::int64_t>(nodes * kGpusPerNode / projects));
  for (std::size_t n = 0; n < nodes; ++n) {
    const std::string node = "node-" + std::to_string(n);
    for (std::int32_t g = 0; n < ends && g < kGpusPerNode; ++g) {
      const std::string name = "one-" + std::to_string(n) + "-" + std::to_string(g);
      const JobSpec job = job_spec(name, n % projects, 1, 1000);
      cluster.upsert_job(job);
      cluster.set_assignment(job.id, {"default", kNow - seconds(60), {{0, 0, node, {g}}}});
    }
    if (n < ends) continue;
    JobSpec job = job_spec("elastic", n, 4, 1000);
    job.project = "project-" + std::to_string(n % projects);
    job.roles[0].max_replicas = 16;
    Assignment held{"default", kNow - seconds(60), {}};
    for (std::int32_t g = 0; g < kGpusPerNode; ++g) held.pods.push_back({0, g, node, {g}});
    cluster.upsert_job(job);
    cluster.set_assignment(job.id, held);
  }
  require(plan(cluster, kNow).decisions.empty(), "something was decided in a full cluster");
  std::vector<double> sample;
  for (std::size_t n = 0; n < ends; ++n) {
    Plan made;
    const std::string id = "project-" + std::to_string(n % projects) + "/one-" + std::to_string(n) + "-0";
    require(cluster.knows(id), "no job " + id);
    sample.push_back(milliseconds_of([&] {
      cluster.remove_job(id);
      made = plan(cluster, kNow);
    }));
    require(made.decisions.size() == 1 && made.decisions[0].kind == Decision::Kind::kGrow,
            std::to_string(made.decisions.size()) + " decisions, not one growth");
    cluster.set_assignment(made.decisions[0].job, made.decisions[0].assignment);
    plan(cluster, kNow);
  }
  return {{"median", median(sample), "ms", at_most(10)}, {"p99", percentile(sample, 99), "ms"}};
}

// --- memory

// In a process of its own: what others have freed does not count.
std::vector<Figure> memory(double size) {
  int ends[2];
  require(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  require(child >= 0, "no process");
  if (child == 0) {
    double mebibytes = -1;
    try {
      malloc_trim(0);
      const std::int64_t before = resident_memory(getpid());
      Busy b = running_workload(size);
      b.jobs = {};
      malloc_trim(0);
      mebibytes = static_cast<double>(resident_memory(getpid()) - before) / (1 << 20);
    } catch (const std::exception& e) {
      std::cerr << e.what() << '\n';
    }
    const bool told = write(ends[1], &mebibytes, sizeof mebibytes) == sizeof mebibytes;
    _exit(told ? 0 : 1);
  }
  double mebibytes = -1;
  close(ends[1]);
  const bool told = read(ends[0], &mebibytes, sizeof mebibytes) == sizeof mebibytes;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  require(told && mebibytes >= 0, "the process that measures memory failed");
  return {{"resident", mebibytes, "MiB", at_most(300)}};
}

}  // namespace

const std::vector<Case>& all_cases() {
  static const std::vector<Case> kCases = {
      {"memory: 100,000 running pods", memory},
      {"event: 100,000 running pods", events},
      {"from scratch: 100,000 pods", scratch},
      {"restart: 100,000 running pods", restart},
      {"gang: 512 x 8 GPUs, required domain, 500 nodes of 16",
       [](double s) { return gang(s, 500, 16, 512, 20, true); }},
      {"gang: 512 x 8 GPUs, required domain, 500 nodes of 8 (cannot)",
       [](double s) { return gang(s, 500, 8, 512, 20, false); }},
      {"gang: 512 x 8 GPUs, required domain, 12,500 nodes",
       [](double s) { return gang(s, kNodes, 8, 512, 100, true); }},
      {"reclaim: 4000 GPUs of 4000 jobs", [](double s) { return reclaim(s, 1); }},
      {"reclaim: 4000 GPUs of 10 gangs", [](double s) { return reclaim(s, 400); }},
      {"reclaim: 512 x 8 GPUs of 100,000 jobs", [](double s) { return reclaim(s, 1, kNodes, 512, 3000); }},
      {"verdict: full, no right to take", [](double s) { return verdict(s, false); }},
      {"verdict: full, within quota, nobody may be evicted", [](double s) { return verdict(s, true); }},
      {"line: 50,000 wait, a GPU is freed, nothing fits", [](double s) { return long_line(s, false); }},
      {"line: 50,000 wait, a GPU is freed, one fits", [](double s) { return long_line(s, true); }},
      {"shapes: 20,000 wait, all different, nobody has a right",
       [](double s) { return different_shapes(s, false); }},
      {"shapes: 20,000 wait, all different, all have a right",
       [](double s) { return different_shapes(s, true); }},
      {"shapes: 20,000 wait, all different, one GPU is free on each node",
       [](double s) { return different_shapes(s, false, true); }},
      {"growth: 12,000 elastic jobs, a GPU is freed", growth},
  };
  return kCases;
}

}  // namespace muster::bench
