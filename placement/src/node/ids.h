// Ids: indexes into the tables of ClusterModel, each kind a type of its own, so that none is taken for
// another.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace muster::placement {

enum class NodeId : std::int32_t {};
enum class PoolId : std::int32_t {};
enum class ModelId : std::int32_t {};   // of GPUs
enum class DomainId : std::int32_t {};  // of one pool
enum class JobId : std::int32_t {};
enum class QueueId : std::int32_t {};  // of a Queue or a Project
enum class RequestId : std::int32_t {};

template <class T>
concept Id = std::same_as<T, NodeId> || std::same_as<T, PoolId> || std::same_as<T, ModelId> ||
             std::same_as<T, DomainId> || std::same_as<T, JobId> || std::same_as<T, QueueId> ||
             std::same_as<T, RequestId>;

// No id of any kind.
struct NoId {
  template <Id T>
  constexpr operator T() const {  // NOLINT(google-explicit-constructor): it stands for each of them
    return static_cast<T>(-1);
  }
  template <Id T>
  friend constexpr bool operator==(T id, NoId) {
    return static_cast<std::int32_t>(id) == -1;
  }
};
inline constexpr NoId kNoId;

inline constexpr JobId kOther{-2};        // holder of a GPU: a pod outside assignments
inline constexpr DomainId kWholePool{0};  // the domain of all nodes of a pool

// For ranges over pairs that end in an id.
template <Id T>
inline constexpr T kFirstId{std::numeric_limits<std::int32_t>::min()};
template <Id T>
inline constexpr T kLastId{std::numeric_limits<std::int32_t>::max()};

}  // namespace muster::placement
