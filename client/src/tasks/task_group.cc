#include "muster/client/task_group.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <utility>

namespace muster::client {

TaskGroup::TaskGroup(Executor executor)
    : executor_(std::move(executor)), state_(std::make_shared<State>(executor_)) {}
TaskGroup::~TaskGroup() = default;

void TaskGroup::spawn(Task<void> task) {
  auto signal = std::make_shared<boost::asio::cancellation_signal>();
  const auto place = state_->running.insert(state_->running.end(), signal);
  auto ended = [state = state_, place, signal](std::exception_ptr error) {
    state->running.erase(place);
    if (state->running.empty()) state->all_ended.notify();
    if (error) std::rethrow_exception(error);
  };
  boost::asio::co_spawn(executor_, detail::run_without_throw(std::move(task)),
                        boost::asio::bind_cancellation_slot(signal->slot(), std::move(ended)));
}

void TaskGroup::cancel() {
  const auto running = state_->running;  // a copy: a task may end while the others are told
  for (const auto& signal : running) signal->emit(boost::asio::cancellation_type::terminal);
}

Task<bool> TaskGroup::join() {
  auto state = state_;
  while (!state->running.empty()) {
    if (!co_await state->all_ended.wait()) co_return false;
  }
  co_return true;
}

Task<bool> TaskGroup::join_until(Clock& clock, TimePoint when) {
  auto state = state_;
  while (!state->running.empty()) {
    const Wake wake = co_await state->all_ended.wait_until(clock, when);
    if (wake != Wake::kNotified) break;
  }
  co_return state->running.empty();
}

std::size_t TaskGroup::size() const {
  return state_->running.size();
}

}  // namespace muster::client
