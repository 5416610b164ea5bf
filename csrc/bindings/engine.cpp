#include "engine/engine.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <optional>

#include "bindings/module.hpp"
#include "pages/c_api.hpp"

namespace py = pybind11;

namespace pgmo {
namespace {

template <typename T>
using Column = py::array_t<T, py::array::c_style | py::array::forcecast>;

std::vector<PlannedRequest> read_requests(const Column<Bytes>& bytes,
                                          const Column<std::uint32_t>& stream_index,
                                          const Column<bool>& varying, const Column<Tick>& end,
                                          const Column<Offset>& offset,
                                          const Column<Offset>& alternate,
                                          const Column<std::uint32_t>& family) {
  const py::ssize_t rows = bytes.size();
  for (const py::ssize_t other : {stream_index.size(), varying.size(), end.size(), offset.size(),
                                  alternate.size(), family.size()}) {
    if (other != rows) throw py::value_error("the columns of a plan differ in length");
  }
  std::vector<PlannedRequest> requests(static_cast<std::size_t>(rows));
  for (py::ssize_t row = 0; row < rows; ++row) {
    requests[static_cast<std::size_t>(row)] = {.bytes = bytes.data()[row],
                                               .stream_index = stream_index.data()[row],
                                               .varying = varying.data()[row],
                                               .end = end.data()[row],
                                               .offset = offset.data()[row],
                                               .alternate = alternate.data()[row],
                                               .family = family.data()[row]};
  }
  return requests;
}

// Names of the entries of `Counted`.
constexpr std::array<const char*, std::tuple_size_v<Counted>> kCountedNames{
    "requests",         "hits",           "persistent",  "unknown",         "too_large",
    "occupied",         "late",           "no_arena",    "requested_bytes", "hit_bytes",
    "persistent_bytes", "skipped",        "late_blocks", "page_creates",    "page_releases",
    "page_maps",        "page_grants",    "page_unmaps", "page_events",     "page_waits",
    "page_waits_added", "page_hand_overs"};

py::array read_events(Engine& engine) {
  auto* events = new std::vector<Event>(engine.events());
  const py::capsule owner(events,
                          [](void* memory) { delete static_cast<std::vector<Event>*>(memory); });
  return py::array_t<Event>(static_cast<py::ssize_t>(events->size()), events->data(), owner);
}

py::typing::Dict<py::str, py::int_> read_counted(const Counted& counted) {
  py::typing::Dict<py::str, py::int_> out;
  for (std::size_t at = 0; at < counted.size(); ++at) out[kCountedNames[at]] = counted[at];
  return out;
}

py::typing::Dict<py::str, py::int_> read_statistics(const Statistics& all) {
  py::typing::Dict<py::str, py::int_> out = read_counted(Passing::counted_in(all));
  out["iterations"] = all.counters.iterations;
  out["live_slot_bytes"] = all.slots.live;
  out["peak_slot_bytes"] = all.slots.peak;
  out["live_fallback_bytes"] = all.fallback.live;
  out["peak_fallback_bytes"] = all.fallback.peak;
  out["arena_bytes"] = all.arena_bytes;
  out["pages_held"] = all.pages.held;
  out["pages_occupied"] = all.pages.occupied;
  out["peak_pages_held"] = all.pages.peak_held;
  out["page_requests"] = all.pages.requests_that_map;
  out["planned_pages"] = all.planned_pages;
  out["recorded_requests"] = all.recorded_requests;
  out["recorded_bytes"] = all.recorded_bytes;
  out["arenas"] = all.arenas;
  out["late_now"] = all.late_now;
  return out;
}

py::tuple take_passed(Engine& engine) {
  std::vector<Passed> passed;
  const Statistics at_end = engine.take_passed(passed);
  py::list runs;
  for (const Passed& one : passed) {
    runs.append(py::make_tuple(one.iterations, one.plan, read_counted(one.change)));
  }
  return py::make_tuple(runs, read_statistics(at_end));
}

py::tuple read_levels(Engine& engine) {
  const LiveLevels levels = engine.live_levels();
  std::vector<std::tuple<Bytes, Bytes>> spans;
  for (std::size_t at = 0; at < levels.count(); ++at) {
    spans.emplace_back(levels.at(at).least, levels.at(at).peak);
  }
  return py::make_tuple(levels.width(), spans);
}

pgmo_arena read_arena(std::uintptr_t base, std::size_t bytes, std::uintptr_t give_back,
                      std::uintptr_t context) {
  return {reinterpret_cast<void*>(base), bytes, reinterpret_cast<void (*)(void*)>(give_back),
          reinterpret_cast<void*>(context)};
}

py::array read_living(Engine& engine) {
  const std::vector<Living> living = engine.living();
  return py::array_t<Living>(static_cast<py::ssize_t>(living.size()), living.data());
}

}  // namespace

void bind_engine(py::module_& module) {
  PYBIND11_NUMPY_DTYPE_EX(Event, kind, "kind", in_gap, "in_gap", thread, "thread", tag, "tag",
                          block, "block", reserved, "reserved", bytes, "bytes", stream, "stream");

  PYBIND11_NUMPY_DTYPE(Living, address, bytes, kind);

  module.def(
      "set_tag", &set_thread_tag, py::arg("tag"), py::arg("generation"),
      "Set the tag of blocks that this thread requests from now on; -1: none. Only engines that\n"
      "expect this generation of tags record the tag.");
  module.def(
      "tag_end", [] { return reinterpret_cast<std::uintptr_t>(&end_thread_tag); },
      "Return the address of a C function without arguments that sets the calling thread's tag\n"
      "to none.");
  module.def("next_tag_generation", &next_tag_generation,
             "Return a new generation number, for the tags of one tagger.");
  module.def(
      "engine_api", [] { return reinterpret_cast<std::uintptr_t>(engine_api()); },
      "Return the address of the function table in pgmo_engine.h, for adapters.");

  py::class_<Engine, std::shared_ptr<Engine>>(
      module, "Engine",
      "Engine of one framework allocator: it records requests, and serves them from plans.")
      .def(py::init<>())
      .def_property_readonly(
          "handle", [](Engine& engine) { return reinterpret_cast<std::uintptr_t>(&engine); },
          "Pointer to the pgmo_engine, for adapters.")
      .def(
          "keep_forever",
          // Leak a reference: the engine and its plans must outlive every tensor in its arenas.
          [](const std::shared_ptr<Engine>& engine) { new std::shared_ptr<Engine>(engine); },
          "Keep the engine until the process exits. Call this before an adapter hands out\n"
          "blocks.")
      .def("start_recording", &Engine::start_recording,
           "Discard all recorded events and start recording.")
      .def("stop_recording", &Engine::stop_recording, "Stop recording; the events remain.")
      .def("forget_recording", &Engine::forget_recording,
           "Discard all events and free their memory. If recording is on, it continues.")
      .def("events", &read_events,
           "Return the recorded events as a structured array; pgmo.profiler.recording explains\n"
           "its fields.")
      .def_property_readonly("recording_truncated", &Engine::recording_truncated,
                             "True if events are missing, because memory ran out or the\n"
                             "recording reached its limit.")
      .def("expect_tags", &Engine::expect_tags, py::arg("generation"),
           "From now on, record only tags of this generation; 0: no tags.")
      .def(
          "add_plan",
          [](Engine& engine, const Column<Bytes>& bytes, const Column<std::uint32_t>& stream_index,
             const Column<bool>& varying, const Column<Tick>& end, const Column<Offset>& offset,
             const Column<Offset>& alternate, const Column<std::uint32_t>& family,
             const std::vector<std::uint64_t>& streams, Bytes arena_bytes, Bytes alignment,
             const std::optional<Column<Tick>>& behind) {
            std::vector<Tick> order;
            if (behind) order.assign(behind->data(), behind->data() + behind->size());
            return engine.add_plan(
                read_requests(bytes, stream_index, varying, end, offset, alternate, family),
                streams, arena_bytes, alignment, std::move(order));
          },
          py::arg("size"), py::arg("stream_index"), py::arg("varying"), py::arg("end"),
          py::arg("offset"), py::arg("alternate"), py::arg("family"), py::arg("streams"),
          py::arg("arena_bytes"), py::arg("alignment"), py::arg("behind") = py::none(),
          "Add a validated plan with one row per request, and return its number. Sizes, offsets\n"
          "and `arena_bytes` are in bytes. `behind`, one row per request and one column per\n"
          "stream: the tick from which the stream runs after the last use of the block\n"
          "(pgmo.profiler.ordering). Only from this tick on may the stream share the block's\n"
          "pages.\n\n"
          "Raises ValueError if a row is malformed, columns differ in length, there are too many\n"
          "streams, or a slot lies outside its arena or is not aligned there.")
      .def("select_plan", &Engine::select_plan, py::arg("plan"),
           "Serve the next requests from this plan. Raises ValueError if there is no such plan.")
      .def_property_readonly("ended_plan", &Engine::ended_plan,
                             "Number of the plan that was selected when the last iteration\n"
                             "ended; 0 before the first.")
      .def("remove_plans", &Engine::remove_plans, "Stop serving, and remove all plans.")
      .def(
          "take_grown",
          [](Engine& engine) {
            std::vector<std::pair<std::uint32_t, Bytes>> grown;
            for (const Grown& one : engine.take_grown()) grown.push_back({one.request, one.bytes});
            return grown;
          },
          "Return the requests since the last call that were larger than their slots in the\n"
          "plan `ended_plan`, as (row of the plan, requested bytes).")
      .def(
          "add_arena",
          [](Engine& engine, std::uint64_t stream, Offset begin, std::uintptr_t base,
             std::size_t bytes, std::uintptr_t give_back, std::uintptr_t context) {
            engine.add_arena(stream, begin, read_arena(base, bytes, give_back, context));
          },
          py::arg("stream"), py::arg("begin"), py::arg("base"), py::arg("bytes"),
          py::arg("give_back") = 0, py::arg("context") = 0,
          "Add an arena of this stream, for the offsets from `begin` on. `base` and `give_back`\n"
          "are addresses. Unless `give_back` is 0, the engine calls give_back(context) once the\n"
          "arena is detached and its last block is freed. Raises ValueError if a slot lies\n"
          "outside the arena, or if the engine cannot use the arena.")
      .def(
          "use_pages",
          [](Engine& engine, std::uintptr_t space) {
            engine.use_pages(*pages::space_of(reinterpret_cast<pgmo_space*>(space)));
          },
          py::arg("space"), "Set the page space of the engine's arenas, by its address.")
      .def(
          "reserve_arena",
          [](Engine& engine, std::uintptr_t space, Bytes bytes, std::uint32_t stream) {
            const pgmo_arena arena = engine.reserve_arena(
                *pages::space_of(reinterpret_cast<pgmo_space*>(space)), bytes, stream);
            return std::make_tuple(reinterpret_cast<std::uintptr_t>(arena.base), arena.bytes,
                                   reinterpret_cast<std::uintptr_t>(arena.give_back),
                                   reinterpret_cast<std::uintptr_t>(arena.context));
          },
          py::arg("space"), py::arg("bytes"), py::arg("stream"),
          "Reserve addresses for an arena, whose pages are mapped when slots need them. Return\n"
          "(base, bytes, give_back, context) for `add_arena`. The base is 0 if no addresses are\n"
          "available.")
      .def(
          "add_spill",
          [](Engine& engine, Offset begin, std::uintptr_t base, std::size_t bytes,
             std::uintptr_t give_back, std::uintptr_t context) {
            engine.add_spill(begin, read_arena(base, bytes, give_back, context));
          },
          py::arg("begin"), py::arg("base"), py::arg("bytes"), py::arg("give_back") = 0,
          py::arg("context") = 0,
          "Add the spill arena, for slots of all streams at the offsets from `begin` on, which\n"
          "are above the offsets of all other arenas. Call this before the other arenas are\n"
          "added.")
      .def_property_readonly(
          "busy",
          [](Engine& engine) { return __atomic_load_n(engine.mode(), __ATOMIC_RELAXED) != 0; },
          "True if the engine records or serves requests; False in a pause.")
      .def_property_readonly("has_arena", &Engine::has_arena)
      .def("living", &read_living,
           "Return the live blocks as a structured array: address, bytes, kind. Kind 0: block\n"
           "of the framework that was allocated while the engine recorded or served; 1: block\n"
           "in a slot; 2: block in a slot, past the planned end of its lifetime.")
      .def("return_idle", &Engine::return_idle, py::call_guard<py::gil_scoped_release>(),
           "Give arena pages without live blocks back to the operating system, and return their\n"
           "bytes. Current arenas are included only while the engine does not serve. Requires\n"
           "arenas in private memory.")
      .def("lend_idle", &Engine::lend_idle, py::arg("on"),
           "Set whether an iteration that diverges from its plan gives pages without live blocks\n"
           "back to the operating system. Requires arenas in private memory.")
      .def_property_readonly(
          "sparse_from", &Engine::sparse_from,
          "Bytes of the smallest measured block of which the program touched less than half;\n"
          "0: none, or it touched half or more of a block that is at least as large.")
      .def(
          "owns",
          [](Engine& engine, std::uintptr_t pointer) {
            return engine.owns(reinterpret_cast<void*>(pointer));
          },
          py::arg("pointer"), "Return whether the address is in an arena.")
      .def(
          "shared",
          [](Engine& engine, std::uintptr_t pointer, std::uint64_t stream) {
            return engine.shared(reinterpret_cast<void*>(pointer), stream);
          },
          py::arg("pointer"), py::arg("stream"),
          "Report that this stream uses the block. Return True if the block is a slot of another\n"
          "stream, so that the caller must delay the block's release.")
      .def("detach_arena", &Engine::detach_arena,
           "Stop serving, and give each current arena back once it has no live block.")
      .def("start_serving", &Engine::start_serving)
      .def("pause", &Engine::pause, "Delegate all requests to the framework until `resume`.")
      .def("resume", &Engine::resume)
      .def("delegate_thread", &Engine::delegate_thread, py::arg("thread"), py::arg("on"),
           "Set whether all requests of a thread are delegated to the framework. `thread` is a\n"
           "native id.")
      .def(
          "threads",
          [](Engine& engine) {
            std::vector<std::tuple<ThreadId, std::uint64_t, std::uint64_t, std::uint64_t>> all;
            for (const Threads::Activity& one : engine.threads()) {
              all.emplace_back(one.thread, one.first, one.last, one.count);
            }
            return all;
          },
          "Return (native id, first request, last request, number of requests) for each thread\n"
          "with requests in this iteration, for 64 threads at most. Requests of delegated\n"
          "threads do not count. The first and the last request are ordinals among the requests\n"
          "of all threads, from 1.")
      .def("end_iteration", &Engine::end_iteration)
      .def(
          "let_pass",
          [](Engine& engine, std::uint64_t most, bool again, bool anything) {
            engine.let_pass({.most = most, .again = again, .anything = anything});
          },
          py::arg("most"), py::arg("again"), py::arg("anything"),
          "Let `pass_iteration` end the next iterations, `most` at most, up to the first that\n"
          "does not qualify. Iterations qualify that follow the plan; with `again`, also\n"
          "iterations that repeat the previous one; with `anything`, all.")
      .def("let_steps_pass", &Engine::let_steps_pass, py::arg("thread"),
           "Set the thread whose calls of `pass_step` may end iterations, by its native id;\n"
           "0: none.")
      .def("set_steps", &Engine::set_steps, py::arg("steps"),
           "Set the number of calls of `pass_iteration` that make one iteration; usually 1.")
      .def("pass_iteration", &Engine::pass_iteration,
           "End a step and return True if it is not the last step of its iteration. The last\n"
           "step, and the iteration, end only if `let_pass` allows it and no arena or page needs\n"
           "work. Otherwise return False and do nothing: the caller must call `end_iteration`.")
      .def("pass_step", &Engine::pass_step,
           "Do the same as `pass_iteration` in the thread that `let_steps_pass` has set. In\n"
           "other threads, return False and do nothing.")
      .def("take_passed", &take_passed,
           "Return (runs, statistics) of the iterations that `pass_iteration` has ended. Each\n"
           "run since the last call is (number of equal iterations, number of the plan,\n"
           "increases of the counters per iteration). The statistics are those at the end of\n"
           "the last such iteration.")
      .def("live_levels", &read_levels,
           "Return the number of iterations per span, and a pair for each complete span since\n"
           "`forget_levels`: the least live bytes at the end of an iteration, and the peak of\n"
           "live bytes.")
      .def("forget_levels", &Engine::forget_levels)
      .def("reset_peaks", &Engine::reset_peaks)
      .def("yield_idle", &Engine::yield_idle,
           "Give all current arenas back to the framework, if none of them has a live block.\n"
           "Return whether any were given back, so that the framework may have memory.")
      .def(
          "statistics", [](Engine& engine) { return read_statistics(engine.statistics()); },
          "Return by name the counters since the engine was created, and the current levels.")
      .def(
          "allocate",
          [](Engine& engine, std::size_t bytes, std::uint64_t stream) {
            return reinterpret_cast<std::uintptr_t>(engine.allocate(bytes, stream));
          },
          py::arg("bytes"), py::arg("stream") = 0,
          "Return the address of a slot, or 0 if the framework must serve the request.")
      .def(
          "adopt",
          [](Engine& engine, std::uintptr_t pointer, std::size_t bytes, std::uint64_t stream,
             bool in_gap) {
            return engine.adopt(reinterpret_cast<void*>(pointer), bytes, stream, in_gap);
          },
          py::arg("pointer"), py::arg("bytes"), py::arg("stream") = 0, py::arg("in_gap") = false,
          "Report a block that the framework has allocated. Return True if the caller must call\n"
          "`release` when the block is freed.")
      .def(
          "release",
          [](Engine& engine, std::uintptr_t pointer) {
            return engine.release(reinterpret_cast<void*>(pointer));
          },
          py::arg("pointer"),
          "Release a block. Return False if the block is not a slot: the framework must free it.");
}

}  // namespace pgmo
