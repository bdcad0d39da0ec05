#include "muster/reconcilers/pods/names.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

namespace muster::reconcilers {
namespace {

TEST(Names, PodsSayWhoseTheyAre) {
  EXPECT_EQ(pod_name("llama", "worker", 7, 2, 0), "llama-worker-7-2");
  EXPECT_EQ(pod_name("llama", "worker", 7, 2, 3), "llama-worker-7-2-r3");
  EXPECT_EQ(host_name("worker", 7), "worker-7");
  EXPECT_EQ(service_name("llama"), "llama");
  EXPECT_EQ(hosts_config_map_name("llama"), "llama-hosts");
  EXPECT_EQ(gpu_list({0, 1, 5}), "0,1,5");
  EXPECT_EQ(gpu_list({}), "");
}

// "a-b" with role "c" and "a" with role "b-c" are different jobs of one namespace.
TEST(Names, DashesDoNotMakeTwoPodsOne) {
  EXPECT_NE(pod_name("a-b", "c", 0, 1, 0), pod_name("a", "b-c", 0, 1, 0));
  EXPECT_NE(pod_name("a", "b-c", 0, 1, 0), pod_name("a-b", "c", 0, 1, 0));
  std::set<std::string> names;
  int made = 0;
  for (const char* job : {"a", "a-b", "a-b-c", "a-0", "a-0-1"}) {
    for (const char* role : {"w", "b-w", "b-c-w", "w-0", "w-0-1"}) {
      for (int index : {0, 1, 11}) {
        for (int attempt : {1, 11}) {
          for (int tries : {0, 1}) names.insert(pod_name(job, role, index, attempt, tries)), ++made;
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int>(names.size()), made);
}

TEST(Names, LongOnesAreCutAndStayDifferent) {
  const std::string long_job = std::string(200, 'j') + "." + std::string(52, 'k');
  const std::string long_role = std::string(62, 'r');
  const std::string a = pod_name(long_job, long_role, 1, 1, 0);
  EXPECT_LE(a.size(), 253u);
  EXPECT_NE(a, pod_name(long_job, long_role, 2, 1, 0));
  EXPECT_EQ(a, pod_name(long_job, long_role, 1, 1, 0));
  EXPECT_LE(host_name(long_role, 9999).size(), 63u);
  EXPECT_NE(host_name(long_role, 9999), host_name(long_role, 9998));
  EXPECT_LE(job_label(long_job).size(), 63u);
  EXPECT_LE(hosts_config_map_name(long_job).size(), 253u);
  EXPECT_EQ(job_label("llama"), "llama");
}

// The names stay the same from release to release: a new one must find the pods of the old.
TEST(Names, HashesAreFixed) {
  EXPECT_EQ(pod_name("a", "b-c", 0, 1, 0), "a-b-c-9eece1-0-1");
  EXPECT_EQ(service_name("1.2"), "j-1-2-457d391818");
}

TEST(Names, ServicesAreDnsLabelsWhateverTheJobIsCalled) {
  const std::regex dns("[a-z]([-a-z0-9]*[a-z0-9])?");
  std::set<std::string> names;
  for (const std::string& job :
       {std::string("x"), std::string("0job"), std::string("a.b"), std::string("a-b"), std::string("a..b"),
        std::string(64, 'a'), std::string(63, 'a'), std::string(253, '-'), std::string("9")}) {
    const std::string name = service_name(job);
    EXPECT_TRUE(std::regex_match(name, dns)) << name;
    EXPECT_LE(name.size(), 63u);
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

}  // namespace
}  // namespace muster::reconcilers
