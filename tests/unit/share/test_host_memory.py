from pgmo.share.host_memory import host_memory


def test_a_containers_limit_counts(tmp_path):
    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text("MemTotal:       1048576 kB\nMemAvailable:    524288 kB\nBuffers: 1 kB\n")
    assert host_memory(meminfo, cgroup) == (1 << 30, 512 << 20)
    cgroup.write_text("max\n")
    assert host_memory(meminfo, cgroup) == (1 << 30, 512 << 20)
    cgroup.write_text(f"{256 << 20}\n")
    assert host_memory(meminfo, cgroup) == (256 << 20, 256 << 20)
    assert host_memory(tmp_path / "none", cgroup) == (0, 0)
