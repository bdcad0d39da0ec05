// The field table of a type: each JSON name once, beside the member that holds it. Parsing, printing and the
// comparison of schema and type are all made from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace muster::crds {

// Whether a zero (false, 0) is printed. Empty strings, lists, maps, optionals and objects never are.
enum class Zero : std::uint8_t { kPrint, kOmit };

template <class T, class M>
struct Field {
  std::string_view name;
  M T::* member;
  Zero zero;
};

template <class T, class M>
constexpr Field<T, M> field(std::string_view name, M T::* member, Zero zero = Zero::kPrint) {
  return {name, member, zero};
}

// All fields of a type: called with a function, it calls that with all of them. (A std::tuple would say the
// same, and every source file that sees the types would take two seconds longer to compile.)
template <class... F>
constexpr auto fields_of(F... fields) {
  return [=](auto&& use) { return use(fields...); };
}

// A type that has `static constexpr auto fields()`, which returns what fields_of() makes.
template <class T>
concept HasFields = requires { T::fields(); };

// An enum whose `names_of(E{})` lists the JSON words in the order of its values, from 0.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) { names_of(e).size(); };

template <NamedEnum E>
constexpr std::string_view to_string(E e) {
  return names_of(e)[static_cast<std::size_t>(e)];
}

}  // namespace muster::crds
