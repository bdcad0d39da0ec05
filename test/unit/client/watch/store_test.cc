// The Store by hand: views, versions, incarnations, assumed writes, indexes, handlers.
#include <gtest/gtest.h>

#include "muster/client/informer.h"

namespace muster::client {
namespace {

struct Item {
  Meta meta;
  std::string colour;
};

Item item(const std::string& name, const std::string& uid, int version, std::string colour = "red") {
  Item i;
  i.meta.ns = "ns";
  i.meta.name = name;
  i.meta.uid = uid;
  i.meta.resource_version = std::to_string(version);
  i.colour = std::move(colour);
  return i;
}

// "+a/u1@5": added; "~" updated; "-" deleted; "S" synced.
struct Heard {
  Store<Item> store;
  std::vector<std::string> events;

  Heard() {
    store.add_index("colour", [](const Item& i) { return std::vector<std::string>{i.colour}; });
    store.add_handler([this](const StoreEvent<Item>& e) {
      if (const auto* a = std::get_if<Added<Item>>(&e)) events.push_back("+" + text(*a->now));
      if (const auto* u = std::get_if<Updated<Item>>(&e)) events.push_back("~" + text(*u->now));
      if (const auto* d = std::get_if<Deleted<Item>>(&e)) events.push_back("-" + text(*d->last));
      if (std::holds_alternative<Synced>(e)) events.push_back("S");
    });
  }
  static std::string text(const Item& i) {
    return i.meta.name + "/" + i.meta.uid + "@" + i.meta.resource_version;
  }
  void view(std::vector<Item> items, int version) {
    store.begin_view();
    for (Item& i : items) store.view_object(std::move(i));
    store.end_view(std::to_string(version));
  }
  std::vector<std::string> take() { return std::exchange(events, {}); }
  std::vector<std::string> names(const std::string& colour) const {
    std::vector<std::string> out;
    for (const auto& i : store.by_index("colour", colour)) out.push_back(i->meta.name);
    return out;
  }
};

using V = std::vector<std::string>;

TEST(Store, AViewIsSwappedInAtOnceAndDifferencesAreTold) {
  Heard h;
  h.store.begin_view();
  h.store.view_object(item("a", "1", 1));
  h.store.view_object(item("b", "2", 2));
  EXPECT_EQ(h.store.size(), 0u);  // half a view is not visible
  EXPECT_FALSE(h.store.synced());
  h.store.end_view("2");
  EXPECT_TRUE(h.store.synced());
  EXPECT_EQ(h.take(), (V{"+a/1@1", "+b/2@2", "S"}));

  h.view({item("b", "2", 5), item("c", "3", 4)}, 6);
  EXPECT_EQ(h.take(), (V{"-a/1@1", "~b/2@5", "+c/3@4"}));

  h.view({item("b", "9", 8), item("c", "3", 4)}, 9);
  EXPECT_EQ(h.take(), (V{"-b/2@5", "+b/9@8"}));

  h.view({}, 10);
  EXPECT_EQ(h.take(), (V{"-b/9@8", "-c/3@4"}));
}

TEST(Store, HalfAViewIsForgottenByTheNext) {
  Heard h;
  h.view({item("a", "1", 1)}, 1);
  h.take();
  h.store.begin_view();
  h.store.view_object(item("x", "7", 2));
  EXPECT_EQ(h.store.find("ns/x"), nullptr);
  h.view({item("a", "1", 1)}, 3);
  EXPECT_EQ(h.take(), V{});
}

TEST(Store, ADeleteWithinAViewTakesTheObjectOutOfIt) {
  Heard h;
  h.store.begin_view();
  h.store.view_object(item("a", "1", 1));
  h.store.erase(item("a", "1", 2));
  h.store.end_view("3");
  EXPECT_EQ(h.take(), V{"S"});
}

TEST(Store, EventsOfTheWatch) {
  Heard h;
  h.view({}, 1);
  h.take();
  h.store.apply(item("a", "1", 2));
  h.store.apply(item("a", "1", 2));  // once more, after a reconnection
  h.store.apply(item("a", "1", 3, "blue"));
  EXPECT_EQ(h.names("red"), V{});
  EXPECT_EQ(h.names("blue"), V{"a"});
  h.store.apply(item("a", "2", 5));  // its delete was missed
  h.store.erase(item("a", "2", 6));
  h.store.erase(item("a", "2", 6));
  EXPECT_EQ(h.take(), (V{"+a/1@2", "~a/1@3", "-a/1@3", "+a/2@5", "-a/2@6"}));
  EXPECT_EQ(h.names("red"), V{});
  EXPECT_THROW(h.store.by_index("shape", "round"), std::logic_error);
}

TEST(Store, AnOlderVersionNeverOverwritesANewerOne) {
  Heard h;
  h.view({item("a", "1", 5)}, 5);
  h.store.assume(item("a", "1", 9));
  h.store.apply(item("a", "1", 7));
  EXPECT_EQ(h.store.find("ns/a")->meta.resource_version, "9");
  h.store.assume(item("a", "1", 8));
  EXPECT_EQ(h.store.find("ns/a")->meta.resource_version, "9");
  h.store.apply(item("a", "1", 10));
  EXPECT_EQ(h.take(), (V{"+a/1@5", "S", "~a/1@9", "~a/1@10"}));
}

TEST(Store, AssumedObjectsOutliveAnOlderViewButNotANewerOne) {
  Heard h;
  h.view({item("a", "1", 5)}, 5);
  h.store.assume(item("b", "2", 8));
  h.store.assume(item("a", "1", 9));
  h.take();
  h.view({item("a", "1", 5)}, 7);  // taken before our writes
  EXPECT_EQ(h.take(), V{});
  EXPECT_EQ(h.store.find("ns/a")->meta.resource_version, "9");
  h.view({item("a", "1", 9)}, 10);  // somebody else has deleted b since
  EXPECT_EQ(h.take(), V{"-b/2@8"});
}

TEST(Store, ALateAnswerDoesNotBringBackWhatIsGone) {
  Heard h;
  h.view({}, 1);
  h.store.apply(item("a", "1", 3));
  h.store.erase(item("a", "1", 4));
  h.take();
  h.store.assume(item("a", "1", 3));  // the answer to the create comes after the watch
  EXPECT_EQ(h.take(), V{});
  h.store.advance("9");  // a bookmark
  h.store.assume(item("b", "2", 8));
  EXPECT_EQ(h.take(), V{});
  h.store.assume(item("b", "2", 10));
  EXPECT_EQ(h.take(), V{"+b/2@10"});
}

TEST(Store, AssumedDeletesHoldUntilAnotherUid) {
  Heard h;
  h.view({item("a", "1", 2)}, 2);
  h.take();
  h.store.assume_deleted("ns/a", "other");
  EXPECT_EQ(h.take(), V{});
  h.store.assume_deleted("ns/a", "1");
  EXPECT_EQ(h.take(), V{"-a/1@2"});
  h.store.apply(item("a", "1", 3));  // a change from before the delete
  h.store.assume(item("a", "1", 4));
  h.view({item("a", "1", 3)}, 3);
  EXPECT_EQ(h.take(), V{});
  h.store.erase(item("a", "1", 5));
  h.store.apply(item("a", "2", 6));
  EXPECT_EQ(h.take(), V{"+a/2@6"});
}

TEST(Store, ADeleteOfAnOlderIncarnationLeavesTheNewerOne) {
  Heard h;
  h.view({item("a", "1", 2)}, 2);
  h.store.assume(item("a", "2", 9));  // deleted by somebody and made anew by us, unseen
  h.take();
  h.store.erase(item("a", "1", 5));
  h.store.apply(item("a", "2", 9));
  EXPECT_EQ(h.take(), V{});
  EXPECT_EQ(h.store.find("ns/a")->meta.uid, "2");
}

TEST(Store, WhatCannotBeReadIsAbsent) {
  Heard h;
  h.view({item("a", "1", 2)}, 2);
  h.take();
  Meta meta = item("a", "1", 3).meta;
  h.store.drop(meta);
  EXPECT_EQ(h.take(), V{"-a/1@2"});
}

TEST(Store, ARestoredServerMayGoBackInTime) {
  Heard h;
  h.view({item("a", "1", 500), item("b", "2", 600)}, 600);
  h.take();
  h.view({item("a", "1", 100)}, 120);
  EXPECT_EQ(h.take(), (V{"~a/1@100", "-b/2@600"}));
  h.store.apply(item("a", "1", 130));
  EXPECT_EQ(h.take(), V{"~a/1@130"});
}

TEST(Store, HandlersAreNotReentered) {
  Heard h;
  int depth = 0;
  h.store.add_handler([&](const StoreEvent<Item>& e) {
    EXPECT_EQ(++depth, 1);
    if (const auto* a = std::get_if<Added<Item>>(&e); a && a->now->meta.name == "a") {
      Item next = *a->now;
      next.meta.resource_version = "50";
      h.store.assume(next);
      EXPECT_EQ(h.store.find("ns/a")->meta.resource_version, "50");
    }
    --depth;
  });
  h.view({item("a", "1", 2), item("b", "2", 2)}, 2);
  EXPECT_EQ(h.take(), (V{"+a/1@2", "+b/2@2", "S", "~a/1@50"}));
}

TEST(Store, IndexesFollowViews) {
  Heard h;
  h.view({item("a", "1", 1, "red"), item("b", "2", 1, "blue"), item("c", "3", 1, "red")}, 1);
  EXPECT_EQ(h.names("red"), (V{"a", "c"}));
  h.view({item("a", "1", 1, "red"), item("b", "2", 3, "red"), item("d", "4", 3, "blue")}, 3);
  EXPECT_EQ(h.names("red"), (V{"a", "b"}));
  EXPECT_EQ(h.names("blue"), V{"d"});
  EXPECT_THROW(h.store.add_index("late", [](const Item&) { return V{}; }), std::logic_error);
}

}  // namespace
}  // namespace muster::client
