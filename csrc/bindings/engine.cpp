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

// Names of the entries of `Counted`, as in `read_statistics`.
constexpr std::array<const char*, std::tuple_size_v<Counted>> kCountedNames{
    "requests",         "hits",           "persistent",  "unknown",         "too_large",
    "occupied",         "late",           "no_arena",    "requested_bytes", "hit_bytes",
    "persistent_bytes", "skipped",        "late_blocks", "page_creates",    "page_releases",
    "page_maps",        "page_grants",    "page_unmaps", "page_events",     "page_waits",
    "page_waits_added", "page_hand_overs"};

py::array read_events(Engine& engine, std::size_t from) {
  auto* events = new std::vector<Event>(engine.events(from));
  const py::capsule owner(events,
                          [](void* memory) { delete static_cast<std::vector<Event>*>(memory); });
  return py::array_t<Event>(static_cast<py::ssize_t>(events->size()), events->data(), owner);
}

py::typing::Dict<py::str, py::int_> read_statistics(const Statistics& all) {
  const Counters& counters = all.counters;
  const auto misses = [&](Miss reason) { return counters.misses[static_cast<int>(reason)]; };
  py::typing::Dict<py::str, py::int_> out;
  out["requests"] = counters.requests;
  out["hits"] = counters.hits;
  out["persistent"] = misses(Miss::kPersistent);
  out["unknown"] = misses(Miss::kUnknown);
  out["too_large"] = misses(Miss::kTooLarge);
  out["occupied"] = misses(Miss::kOccupied);
  out["late"] = misses(Miss::kLate);
  out["no_arena"] = misses(Miss::kNoArena);
  out["requested_bytes"] = counters.requested_bytes;
  out["hit_bytes"] = counters.hit_bytes;
  out["persistent_bytes"] = counters.persistent_bytes;
  out["skipped"] = counters.skipped;
  out["late_blocks"] = counters.late;
  out["iterations"] = counters.iterations;
  out["live_slot_bytes"] = all.slots.live;
  out["peak_slot_bytes"] = all.slots.peak;
  out["live_fallback_bytes"] = all.fallback.live;
  out["peak_fallback_bytes"] = all.fallback.peak;
  out["arena_bytes"] = all.arena_bytes;
  out["pages_held"] = all.pages.held;
  out["pages_occupied"] = all.pages.occupied;
  out["peak_pages_held"] = all.pages.peak_held;
  out["page_creates"] = all.pages.creates;
  out["page_releases"] = all.pages.releases;
  out["page_maps"] = all.pages.maps;
  out["page_grants"] = all.pages.grants;
  out["page_unmaps"] = all.pages.unmaps;
  out["page_events"] = all.pages.events;
  out["page_waits"] = all.pages.waits;
  out["page_waits_added"] = all.pages.waits_added;
  out["page_requests"] = all.pages.requests_that_map;
  out["page_hand_overs"] = all.pages.hand_overs;
  out["planned_pages"] = all.planned_pages;
  out["recorded_requests"] = all.recorded_requests;
  out["recorded_bytes"] = all.recorded_bytes;
  out["arenas"] = all.arenas;
  out["late_now"] = all.late_now;
  return out;
}

py::typing::Dict<py::str, py::int_> read_change(const Counted& change) {
  py::typing::Dict<py::str, py::int_> out;
  for (std::size_t at = 0; at < change.size(); ++at) out[kCountedNames[at]] = change[at];
  return out;
}

py::tuple take_passed(Engine& engine) {
  std::vector<Passed> passed;
  const Statistics at_end = engine.take_passed(passed);
  py::list runs;
  for (const Passed& one : passed) {
    runs.append(py::make_tuple(one.iterations, one.plan, read_change(one.change)));
  }
  return py::make_tuple(runs, read_statistics(at_end));
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

// Leak a reference: the engine, its arenas and plans must outlive every tensor that an adapter has
// served.
void keep_forever(const std::shared_ptr<Engine>& engine) {
  new std::shared_ptr<Engine>(engine);
}

}  // namespace

void bind_engine(py::module_& module) {
  PYBIND11_NUMPY_DTYPE_EX(Event, kind, "kind", in_gap, "in_gap", thread, "thread", tag, "tag",
                          block, "block", reserved, "reserved", bytes, "bytes", stream, "stream");

  PYBIND11_NUMPY_DTYPE(Living, address, bytes, kind);

  module.def("set_tag", &set_thread_tag, py::arg("tag"), py::arg("generation"),
             "Tags the blocks that the calling thread requests from now on; -1 removes the tag.\n"
             "Only engines that expect this generation of tags take note.");
  module.def("next_tag_generation", &next_tag_generation,
             "A number for the tags of one tagger, other than any before.");
  module.def(
      "engine_api", [] { return reinterpret_cast<std::uintptr_t>(engine_api()); },
      "Address of the table of functions in pgmo_engine.h, for adapters.");

  py::class_<Engine, std::shared_ptr<Engine>>(
      module, "Engine", "Records and replays the requests of one framework allocator.")
      .def(py::init<>())
      .def_property_readonly(
          "handle", [](Engine& engine) { return reinterpret_cast<std::uintptr_t>(&engine); },
          "The pgmo_engine pointer for adapters.")
      .def(
          "keep_forever", [](const std::shared_ptr<Engine>& engine) { keep_forever(engine); },
          "Never destroys the engine: an adapter is about to hand out its blocks.")
      .def("start_recording", &Engine::start_recording, "Forgets earlier events and records.")
      .def("stop_recording", &Engine::stop_recording, "Stops recording; the events remain.")
      .def("forget_recording", &Engine::forget_recording,
           "Gives back the memory of the events, of which none is left. Recording, if it is on,\n"
           "goes on from an empty record.")
      .def("events", &read_events, py::arg("start") = 0,
           "The events from number `start` on, as a structured array (pgmo.profiler.recording).")
      .def_property_readonly("recording_truncated", &Engine::recording_truncated,
                             "Whether memory for recording ran out.")
      .def("expect_tags", &Engine::expect_tags, py::arg("generation"),
           "Records only tags of this generation from now on; 0: none.")
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
          "Adds a plan that the caller has validated; one row per request. Returns its number.\n"
          "`behind` is from which tick on each of the streams comes after each block's use, row "
          "by\n"
          "row (pgmo.profiler.ordering): streams share pages only there.\n\n"
          "Raises ValueError when a row is malformed or the arena is too small.")
      .def("select_plan", &Engine::select_plan, py::arg("plan"),
           "The next iteration starts with this plan.")
      .def_property_readonly("ended_plan", &Engine::ended_plan,
                             "The plan that the last iteration followed to its end.")
      .def("remove_plans", &Engine::remove_plans, "Stops serving and forgets all plans.")
      .def(
          "take_grown",
          [](Engine& engine) {
            std::vector<std::pair<std::uint32_t, Bytes>> grown;
            for (const Grown& one : engine.take_grown()) grown.push_back({one.request, one.bytes});
            return grown;
          },
          "(request, bytes) of that plan's varying requests larger than their slots, since the "
          "last "
          "call.")
      .def(
          "add_arena",
          [](Engine& engine, std::uint64_t stream, Offset begin, std::uintptr_t base,
             std::size_t bytes, std::uintptr_t give_back, std::uintptr_t context) {
            engine.add_arena(stream, begin, read_arena(base, bytes, give_back, context));
          },
          py::arg("stream"), py::arg("begin"), py::arg("base"), py::arg("bytes"),
          py::arg("give_back") = 0, py::arg("context") = 0,
          "An arena of this stream, for the offsets from `begin` on. It is given back, by calling\n"
          "give_back(context), when it serves no more and its last block has died.")
      .def(
          "use_pages",
          [](Engine& engine, std::uintptr_t space) {
            engine.use_pages(*pages::space_of(reinterpret_cast<pgmo_space*>(space)));
          },
          py::arg("space"), "The pages that its arenas will be of.")
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
          "Addresses for an arena, whose pages come as slots need them: base, bytes, give_back\n"
          "and context. The base is 0 where there are none.")
      .def(
          "add_spill",
          [](Engine& engine, Offset begin, std::uintptr_t base, std::size_t bytes,
             std::uintptr_t give_back, std::uintptr_t context) {
            engine.add_spill(begin, read_arena(base, bytes, give_back, context));
          },
          py::arg("begin"), py::arg("base"), py::arg("bytes"), py::arg("give_back") = 0,
          py::arg("context") = 0,
          "An arena for slots of every stream whose offsets lie behind all others, from `begin` "
          "on; it comes before the others.")
      .def_property_readonly(
          "busy",
          [](Engine& engine) { return __atomic_load_n(engine.mode(), __ATOMIC_RELAXED) != 0; },
          "Whether it records or serves.")
      .def_property_readonly("has_arena", &Engine::has_arena)
      .def("living", &read_living,
           "Blocks alive between two iterations, as a structured array: address, bytes, kind. The "
           "kind\nis 0 for the framework's, 1 for one in its slot, 2 for one in a slot past its "
           "end.")
      .def(
          "return_idle", &Engine::return_idle, py::call_guard<py::gil_scoped_release>(),
          "Has the system take back the pages of arenas in which nothing lives, of current ones "
          "only\nwhile nobody is served; returns their bytes. For arenas in this process's private "
          "memory.")
      .def("lend_idle", &Engine::lend_idle, py::arg("on"),
           "Whether pages of arenas in which nothing lives go back amid an iteration that departs "
           "from\nits plan. For arenas in this process's private memory.")
      .def_property_readonly("sparse_from", &Engine::sparse_from,
                             "Bytes of the smallest block of which less than half was touched, if "
                             "all that were\nas large were like that; else 0.")
      .def(
          "owns",
          [](Engine& engine, std::uintptr_t pointer) {
            return engine.owns(reinterpret_cast<void*>(pointer));
          },
          py::arg("pointer"), "Whether the address lies in an arena.")
      .def(
          "shared",
          [](Engine& engine, std::uintptr_t pointer, std::uint64_t stream) {
            return engine.shared(reinterpret_cast<void*>(pointer), stream);
          },
          py::arg("pointer"), py::arg("stream"),
          "Tells that the block is used on this stream. True: its release has to be put off.")
      .def("detach_arena", &Engine::detach_arena,
           "Stops serving; the arena is given back when its last block has died.")
      .def("trust_plans", &Engine::trust_plans)
      .def("start_serving", &Engine::start_serving)
      .def("pause", &Engine::pause, "Delegates everything until `resume`.")
      .def("resume", &Engine::resume)
      .def("delegate_thread", &Engine::delegate_thread, py::arg("thread"), py::arg("on"),
           "Delegates all requests of one thread, by its native id, or no more.")
      .def(
          "threads",
          [](Engine& engine) {
            std::vector<std::tuple<ThreadId, std::uint64_t, std::uint64_t, std::uint64_t>> all;
            for (const Threads::Activity& one : engine.threads()) {
              all.emplace_back(one.thread, one.first, one.last, one.count);
            }
            return all;
          },
          "Of each thread that has requested something in this iteration: its native id, ordinals "
          "of\nits first and last request, and how many there were. Without delegated ones.")
      .def("end_iteration", &Engine::end_iteration)
      .def(
          "let_pass",
          [](Engine& engine, std::uint64_t most, bool again, bool anything) {
            engine.let_pass({.most = most, .again = again, .anything = anything});
          },
          py::arg("most"), py::arg("again"), py::arg("anything"),
          "Let at most this many iterations end without a look at them, until one ends that must "
          "be\nlooked at: those that come as planned, those that repeat the one before (`again`), "
          "or all\n(`anything`).")
      .def("let_steps_pass", &Engine::let_steps_pass, py::arg("thread"),
           "This thread, by its native id, ends all iterations, by `pass_step`; 0: no longer.")
      .def("pass_iteration", &Engine::pass_iteration,
           "Ends the iteration if it need not be looked at; else nothing happens.")
      .def("pass_step", &Engine::pass_step,
           "The same for a call by the thread that ends all iterations; else nothing happens.")
      .def("take_passed", &take_passed,
           "What has passed since the last call: iterations, plan, and what the counters of one of "
           "them\nsay, for each run of equal ones; and the statistics at the end of the last one.")
      .def("reset_peaks", &Engine::reset_peaks)
      .def("yield_idle", &Engine::yield_idle,
           "Gives back arenas in which nothing is alive. True: there were some, so ask the\n"
           "framework again.")
      .def(
          "statistics", [](Engine& engine) { return read_statistics(engine.statistics()); },
          "Counters since the engine was made, and levels now.")
      .def(
          "allocate",
          [](Engine& engine, std::size_t bytes, std::uint64_t stream) {
            return reinterpret_cast<std::uintptr_t>(engine.allocate(bytes, stream));
          },
          py::arg("bytes"), py::arg("stream") = 0, "A slot's address, or 0: ask the framework.")
      .def(
          "adopt",
          [](Engine& engine, std::uintptr_t pointer, std::size_t bytes, std::uint64_t stream,
             bool in_gap) {
            return engine.adopt(reinterpret_cast<void*>(pointer), bytes, stream, in_gap);
          },
          py::arg("pointer"), py::arg("bytes"), py::arg("stream") = 0, py::arg("in_gap") = false,
          "Tells of a block that the framework provided. True: release it through the engine.")
      .def(
          "release",
          [](Engine& engine, std::uintptr_t pointer) {
            return engine.release(reinterpret_cast<void*>(pointer));
          },
          py::arg("pointer"), "True: it was a slot. False: hand it to the framework.");
}

}  // namespace pgmo
