// The program of the README: the README shows it as it is, and it does what the README says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "http/tls_server.h"
#include "muster/common/process.h"

namespace muster::client {
namespace {

using testing::Certificate;
using testing::chunk;
using testing::TlsServer;

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(Example, ReadmeShowsTheProgramAsItIs) {
  const std::string program = read_file(CLIENT_SOURCE_DIR "/example/pods.cc");
  ASSERT_FALSE(program.empty());
  EXPECT_NE(read_file(CLIENT_SOURCE_DIR "/README.md").find("```cpp\n" + program + "```\n"), std::string::npos)
      << "copy client/example/pods.cc into the first code block of client/README.md";
}

std::string event(const std::string& type, const std::string& name, int version, bool end_of_list = false) {
  return "{\"type\":\"" + type +
         "\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" + name +
         "\",\"namespace\":\"ns\",\"uid\":\"u-" + name + "\",\"resourceVersion\":\"" +
         std::to_string(version) + "\"" +
         (end_of_list ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "") + "}}}\n";
}

TEST(Example, ListsAndFollowsPods) {
  const Certificate ca = testing::make_certificate("ca", "");
  const Certificate own = testing::make_certificate("server", "IP:127.0.0.1", &ca);
  TlsServer server(own, [](const TlsServer::Request& request, const TlsServer::Write& write) {
    if (!request.target.starts_with("/api/v1/pods?watch=true"))
      return write(testing::plain_answer(404, "{}"));
    if (request.target.find("sendInitialEvents=true") == std::string::npos)
      return write(testing::plain_answer(500, "{}"));
    write(testing::chunked_head() +
          chunk(event("ADDED", "a", 1) + event("ADDED", "b", 2) + event("BOOKMARK", "", 5, true)));
    write(chunk(event("MODIFIED", "a", 6)) + chunk(event("DELETED", "b", 7)) + chunk(event("ADDED", "c", 8)));
    while (write("")) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    return false;
  });
  std::string dir = ::testing::TempDir() + "muster-example-XXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  std::ofstream(dir + "/ca.crt") << ca.certificate_pem;
  std::ofstream(dir + "/config")
      << "current-context: c\nclusters: [{name: k, cluster: {server: '" << server.url()
      << "', certificate-authority: ca.crt}}]\ncontexts: [{name: c, context: {cluster: k}}]\n";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  common::ProcessStart program{{EXAMPLE_PODS, dir + "/config"}};
  program.out = ends[1];
  const auto started = common::start_process(program);
  ASSERT_TRUE(started) << started.error().message();
  const pid_t pid = *started;
  ::close(ends[1]);
  std::thread watchdog([pid] {  // ends the program whatever it does, and with it the reading below
    std::this_thread::sleep_for(std::chrono::seconds{3});
    ::kill(pid, SIGTERM);
  });
  std::string printed;
  char buffer[512];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    printed.append(buffer, static_cast<std::size_t>(count));
  ::close(ends[0]);
  watchdog.join();
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(printed, "+ ns/a\n+ ns/b\n2 pods\n~ ns/a\n- ns/b\n+ ns/c\n");
  for (const char* file : {"/ca.crt", "/config"}) std::remove((dir + file).c_str());
  ::rmdir(dir.c_str());
}

}  // namespace
}  // namespace muster::client
