// Reads the normals and covariances that `poli node estimate` publishes. Build and run it with Debian's ROS 1:
//   g++ -O2 covariance_listener.cpp -o covariance_listener -lroscpp -lrosconsole -lroscpp_serialization -lrostime
//   ./covariance_listener points:=/points_estimated
#include <ros/ros.h>
#include <sensor_msgs/PointCloud2.h>
#include <sensor_msgs/point_cloud2_iterator.h>
using Floats = sensor_msgs::PointCloud2ConstIterator<float>;

void heard(const sensor_msgs::PointCloud2& cloud) {
  Floats point(cloud, "x"), normal(cloud, "normal_x"), covariance(cloud, "cov_xx");  // each is followed by its other components
  double thickness = 0.0;
  size_t count = 0;
  for (; point != point.end(); ++point, ++normal, ++covariance, ++count) {
    const float *n = &normal[0], *c = &covariance[0];  // n: x y z; c: xx xy xz yy yz zz, in square meters
    thickness += std::sqrt(std::max(0.0f, n[0] * n[0] * c[0] + n[1] * n[1] * c[3] + n[2] * n[2] * c[5] +
                                              2 * (n[0] * n[1] * c[1] + n[0] * n[2] * c[2] + n[1] * n[2] * c[4])));
  }
  ROS_INFO("%zu points, thickness across the surface %.1f mm on average", count, 1e3 * thickness / std::max<size_t>(count, 1));
}

int main(int argc, char** argv) {
  ros::init(argc, argv, "covariance_listener");
  ros::NodeHandle node;
  ros::Subscriber subscriber = node.subscribe("points", 1, heard);
  ros::spin();
}
