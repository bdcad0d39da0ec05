// `kubectl muster top`: the pools and the tree, again and again.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <expected>
#include <iostream>
#include <utility>

#include "capacity/ask.h"
#include "output/terminal.h"
#include "show/show.h"

namespace muster::plugin {
namespace {

constexpr int kRedrawMs = 2000;
constexpr const char* kEnter = "\033[?1049h\033[?25l\033[?7l";  // a screen of its own, no cursor, no wrapping
constexpr const char* kLeave = "\033[?7h\033[?25h\033[?1049l";

volatile sig_atomic_t is_interrupted = 0;

// The terminal as `top` needs it, until this goes. Keys come at once, and Ctrl-C only ends the loop.
class Screen {
 public:
  Screen() {
    struct sigaction action{};
    action.sa_handler = [](int) { is_interrupted = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    has_keys_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    if (has_keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    std::cout << kEnter << std::flush;
  }
  ~Screen() {
    std::cout << kLeave << std::flush;
    if (has_keys_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // In place of what was there. What is left of longer lines and of lines below is cleared.
  static void draw(const std::string& text) {
    std::string frame = "\033[H";
    for (const char c : text) frame += c == '\n' ? "\033[K\n" : std::string(1, c);
    std::cout << frame << "\033[J" << std::flush;
  }

  // Until the next frame is due. False: whoever looks has had enough.
  bool wait() const {
    pollfd keys{has_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    const int ready = poll(&keys, 1, kRedrawMs);
    if (is_interrupted != 0) return false;
    char key = 0;
    return ready <= 0 || (read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q');
  }

 private:
  termios before_{};
  bool has_keys_ = false;
};

// The error is what to say.
std::expected<std::string, std::string> frame(Reader& reader, const std::string& ns, bool colours,
                                              const std::string& pool) {
  const auto free = pools_for(reader);
  if (!free) return std::unexpected(free.error());
  const auto shown = tree_for(reader, ns, pool);
  if (!shown) return std::unexpected(shown.error());
  return print(*free, Format::kTable, colours) + '\n' + print(*shown, Format::kTable, colours);
}

}  // namespace

int run_top(const Options& options, const std::string& pool) {
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const bool colours = wants_colours();
    auto text = frame(reader, ns, colours, pool);
    if (!text) return fail(text.error());
    if (!is_terminal()) {
      std::cout << *text;
      return 0;
    }
    const Screen screen;
    do {
      Screen::draw(fmt::format("{}  every 2 s, q ends\n\n{}", crds::to_string(reader.now()),
                               text ? *text : "error: " + text.error() + '\n'));
      if (!screen.wait()) return 0;
      text = frame(reader, ns, colours, pool);
    } while (is_interrupted == 0);
    return 0;
  });
}

}  // namespace muster::plugin
