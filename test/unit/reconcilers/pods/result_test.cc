#include "muster/reconcilers/pods/result.h"

#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

TEST(Result, IsTheLastLineOfJsonThatHasOne) {
  EXPECT_EQ(parse_result(R"({"result": {"loss": 0.5, "at": [1, 2]}})"), R"({"at":[1,2],"loss":0.5})");
  EXPECT_EQ(parse_result("epoch 1\n{\"result\": 1}\n{\"result\": 2}\nbye\n"), "2");
  EXPECT_EQ(parse_result("{\"result\": \"a\"}\n{\"checkpoint\":{\"step\":3}}"), "\"a\"");
  EXPECT_EQ(parse_result("{\"result\": 1}\n{\"result\": "), "1") << "the last one was cut off";
}

TEST(Result, WhatIsNoneIsAsIfItWereNotThere) {
  for (const char* text : {"", "result", "[\"result\"]", "{\"result\": null}", "{\"a\": {\"result\": 1}}"})
    EXPECT_EQ(parse_result(text), "") << text;
  EXPECT_EQ(parse_result("{\"result\": \"" + std::string(1024, 'x') + "\"}"), "") << "too long to keep";
  EXPECT_EQ(parse_result("{\"result\": 1}\n" + std::string(5000, 'x')), "") << "more than a kubelet keeps";
}

TEST(Result, OfAPodIsThatOfTheFirstContainerWithOne) {
  client::Pod pod;
  EXPECT_EQ(result_of(pod), "");
  pod.ended.resize(3);
  pod.ended[1].message = "{\"result\": 1}";
  pod.ended[2].message = "{\"result\": 2}";
  EXPECT_EQ(result_of(pod), "1");
}

}  // namespace
}  // namespace muster::reconcilers
