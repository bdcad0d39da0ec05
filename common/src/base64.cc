#include "muster/common/base64.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <limits>

namespace muster::common {
namespace {

constexpr auto kMaxSize = static_cast<std::size_t>(std::numeric_limits<int>::max());

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Whole groups of four, and "=" or "==" at the end only. OpenSSL checks the alphabet, but takes "=" anywhere
// and "-" for the end of the text.
bool is_well_formed(std::string_view packed) {
  if (packed.size() % 4 != 0 || packed.size() > kMaxSize) return false;
  const std::size_t padding = std::min(packed.find('='), packed.size());
  return packed.size() - padding <= 2 && packed.find_first_not_of('=', padding) == std::string_view::npos &&
         packed.find('-') == std::string_view::npos;
}

std::optional<std::string> decode_packed(std::string_view packed) {
  if (!is_well_formed(packed)) return {};
  std::string out(packed.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes_of(packed),
                                   static_cast<int>(packed.size()));
  if (size < 0) return {};
  // OpenSSL decodes padding as zeros.
  const auto padding = static_cast<std::size_t>(std::ranges::count(packed, '='));
  out.resize(static_cast<std::size_t>(size) - padding);
  return out;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes_of(bytes),
                                   static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string packed;
  packed.reserve(text.size());
  std::ranges::copy_if(text, std::back_inserter(packed), [](char c) {
    return std::string_view(" \t\r\n\v\f").find(c) == std::string_view::npos;
  });
  auto out = decode_packed(packed);
  OPENSSL_cleanse(packed.data(), packed.size());
  return out;
}

}  // namespace muster::common
