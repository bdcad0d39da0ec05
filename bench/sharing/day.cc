#include "sharing/day.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "core/synthetic.h"

namespace muster::bench {
namespace {

struct Shape {
  const char* name;
  std::uint64_t parts;  // of the jobs, by number
  std::int32_t pods, least_pods, gpus;
  Resizing resizing = Resizing::kNever;
  bool is_interactive = false;
};
constexpr std::array kShapes = {
    Shape{"single", 40, 1, 1, 1},
    Shape{"pair", 10, 1, 1, 2},
    Shape{"half", 10, 1, 1, 4},
    Shape{"node", 10, 1, 1, 8},
    Shape{"gang16", 7, 2, 2, 8},
    Shape{"gang32", 4, 4, 4, 8},
    Shape{"gang64", 2, 8, 8, 8},
    Shape{"grow16", 5, 8, 2, 2, Resizing::kInPlace},
    Shape{"grow32", 2, 8, 2, 4, Resizing::kInPlace},
    Shape{"restart32", 4, 8, 2, 4, Resizing::kRestart},
    Shape{"notebook", 8, 1, 1, 1, Resizing::kNever, true},
};
constexpr std::uint64_t kAllShapes =
    std::accumulate(kShapes.begin(), kShapes.end(), std::uint64_t{0},
                    [](std::uint64_t sum, const Shape& s) { return sum + s.parts; });

// Parts of the GPUs that are a project's quota, of 8; and of the jobs that are its, of 10.
struct Part {
  const char* name;
  std::int64_t quota;
  std::uint64_t jobs;
};
constexpr std::array kParts = {Part{"ads", 3, 3}, Part{"vision", 2, 3}, Part{"speech", 2, 2},
                               Part{"maps", 1, 2}};

// Log-normal: half run for less than the median.
constexpr double kMedianSeconds = 2400, kSigma = 1.2;
constexpr std::int64_t kMinSeconds = 120, kMaxSeconds = 12 * 3600;

constexpr std::uint64_t kLowPercent = 20, kHighPercent = 15, kDoNotSavePercent = 40;

// 0 < result <= 1
double fraction(Random& random) {
  constexpr double kScale = 1.0 / (std::uint64_t{1} << 53);
  return static_cast<double>((random.next() >> 11) + 1) * kScale;
}

std::int64_t run_time(Random& random) {
  // Box and Muller (1958).
  const double radius = std::sqrt(-2 * std::log(fraction(random)));
  const double normal = radius * std::cos(2 * std::numbers::pi * fraction(random));
  const double seconds = kMedianSeconds * std::exp(kSigma * normal);
  return std::clamp(static_cast<std::int64_t>(std::min(seconds, 1e9)), kMinSeconds, kMaxSeconds);
}

const Shape& random_shape(Random& random) {
  std::uint64_t draw = random.below(kAllShapes);
  std::size_t i = 0;
  while (draw >= kShapes[i].parts) draw -= kShapes[i++].parts;
  return kShapes[i];
}

std::size_t random_project(Random& random) {
  std::uint64_t draw = random.below(10);
  std::size_t i = 0;
  while (draw >= kParts[i].jobs) draw -= kParts[i++].jobs;
  return i;
}

DayJob random_job(Random& random, std::int64_t window) {
  const Shape& shape = random_shape(random);
  DayJob job;
  job.name = shape.name;
  job.project = random_project(random);
  job.pods = shape.pods;
  job.least_pods = shape.least_pods;
  job.gpus = shape.gpus;
  job.resizing = shape.resizing;
  job.is_interactive = shape.is_interactive;
  const std::uint64_t draw = random.below(100);
  const DayClass& of = shape.is_interactive                ? kInteractiveClass
                       : draw < kLowPercent                ? kLowClass
                       : draw < kLowPercent + kHighPercent ? kHighClass
                                                           : kTrainingClass;
  job.priority_class = of.name;
  job.priority = of.value;
  job.saves_when_asked = random.below(100) >= kDoNotSavePercent;
  job.arrives = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(window)));
  job.runs = run_time(random);
  return job;
}

}  // namespace

std::int64_t Day::gpus() const {
  std::int64_t sum = 0;
  for (const TraceNode& n : nodes) sum += n.gpus;
  return sum;
}

Day random_day(const DayOptions& options) {
  constexpr std::int64_t kLeast = 64;
  if (options.gpus % kGpusPerNode != 0 || options.gpus < kLeast)
    throw std::runtime_error("there must be whole nodes of 8 GPUs, 64 GPUs at least");
  Day day;
  day.window = options.hours * 3600;
  for (std::int64_t i = 0; i < options.gpus / kGpusPerNode; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 3 - std::min<std::size_t>(number.size(), 3), '0');
    day.nodes.push_back({"n" + number, "H100", 128'000, 2'000'000, kGpusPerNode});
  }
  for (const Part& p : kParts) day.projects.push_back({p.name, options.gpus * p.quota / 8});
  Random random(options.seed);
  const double asked = options.load * static_cast<double>(options.gpus * day.window);
  for (double sum = 0; sum < asked;) {
    day.jobs.push_back(random_job(random, day.window));
    sum += static_cast<double>(day.jobs.back().full() * day.jobs.back().runs);
  }
  std::ranges::stable_sort(day.jobs, {}, &DayJob::arrives);
  for (std::size_t i = 0; i < day.jobs.size(); ++i) day.jobs[i].name += "-" + std::to_string(i);
  return day;
}

}  // namespace muster::bench
