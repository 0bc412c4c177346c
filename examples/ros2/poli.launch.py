"""Start `poli node` in ROS 2: ros2 launch examples/ros2/poli.launch.py points:=/velodyne_points job:=odometry"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PythonExpression

# The job's options, and its parameters.
JOBS = {
    "densify": (["--out", "/points_dense"], {"max_error": 0.05, "voxel": 0.2}),
    "estimate": (["--out", "/points_estimated"], {"voxel": 0.2}),
    "odometry": (["--out", "/poli", "--min-range", "1"], {"map_every": 5.0}),
}


def generate_launch_description():
    actions = [DeclareLaunchArgument("points", default_value="/points"), DeclareLaunchArgument("job", default_value="densify")]
    for job, (options, parameters) in JOBS.items():
        command = ["poli", "node", job, "--ros", "2", "--in", LaunchConfiguration("points"), *options, "--ros-args"]
        for name, value in parameters.items():
            command += ["-p", f"{name}:={value}"]
        wanted = IfCondition(PythonExpression(["'", LaunchConfiguration("job"), f"' in ('all', '{job}')"]))
        actions.append(ExecuteProcess(cmd=command, output="screen", condition=wanted))
    return LaunchDescription(actions)
